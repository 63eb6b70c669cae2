"""`configuration.md`: every setting, from the models in `rowgate.config.models`."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Le
from pydantic import AfterValidator
from pydantic.fields import FieldInfo

from generator.page import code, codes, table
from rowgate.config import authentication, limits, models, plugin, rules, values
from rowgate.config.models import Config
from rowgate.config.schema import json_schema
from rowgate.config.secret import Secret
from rowgate.config.section import Section
from rowgate.config.values import Bounds

# The longest match counts, so a type that adds a rule to another may have its own words.
_WORDS = {
    values.Duration: "duration",
    values.Size: "size",
    values.Whole: "whole number",
    values.Flag: "true or false",
    values.Text: "text",
    values.Name: "name",
    values.ScopeName: "scope",
    values.PublicUrl: "https origin",
    values.BaseUrl: "https URL",
    values.TrustedUrl: "https URL",
    values.PluginUrl: "http or https URL",
    values.AbsolutePath: "absolute path",
    values.Backoff: "two durations",
    values.WebOrigin: "web origin",
    values.Host: "host or host:port",
    values.Proxies: "address or network",
    values.Listen: "host:port",
    authentication.ClaimPath: "path of a claim",
    authentication.SessionCheck: "`never`, `per_call` or a duration",
    authentication.KeyHash: "`sha256:` and 64 digits",
    authentication.Moment: "date and time",
    authentication.BriefText: "text",
    authentication.FunctionName: "name of a SQL function",
    plugin.Argument: "text",
    plugin.Endpoint: "path",
    plugin.VariableName: "variable name",
    plugin.VariableValue: "text or secret",
    rules.ClaimValues: "value or list of values",
    authentication.Extension: "object or entry point",
    rules.Meta: "anything",
    rules.Permission: "permission",
    limits.LimitRate: "rate or `none`",
    limits.Count: "whole number from 1, or `none`",
    limits.CounterStore: "`memory`, URL, or secret that holds one",
    models.Pattern: "name or glob",
    models.ServerPath: "path",
}
_PLURALS = {
    "address or network": "addresses or networks",
    "name or glob": "names or globs",
    "object or entry point": "objects or entry points",
    "path of a claim": "paths of claims",
    "value or list of values": "values",
    "host or host:port": "hosts",
    "text": "text",
    "text or secret": "text or secrets",
}
_KEYS = {"plugins": "NAME", "servers": "NAME", "hints": "TOOL"}


@dataclass(frozen=True, slots=True)
class Setting:
    section: str
    key: str
    type: str
    default: str
    description: str

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key


def body() -> str:
    parts = []
    for path, section in sections():
        title = code(path) if path else "Top level"
        rows = [(code(it.key), it.type, it.default, it.description) for it in settings(path, section)]
        parts.append(f"## {title}\n\n{section.__doc__}\n\n{table(('key', 'type', 'default', 'meaning'), rows)}")
    return "\n\n".join(parts)


def sections() -> Iterator[tuple[str, type[Section]]]:
    """Every section with the path at which it stands, in the order of the file."""
    waiting: list[tuple[str, type[Section]]] = [("", Config)]
    while waiting:
        path, section = waiting.pop(0)
        yield path, section
        waiting[:0] = [(at, inner) for at, inner in _inner(path, section)]


def settings(path: str, section: type[Section]) -> Iterator[Setting]:
    hints = get_type_hints(section, include_extras=True)
    for name, info in section.model_fields.items():
        default = _default(section, name, info)
        yield Setting(path, info.alias or name, _type(hints[name]), default, info.description or "")


def _inner(path: str, section: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    hints = get_type_hints(section, include_extras=True)
    for name, info in section.model_fields.items():
        key = info.alias or name
        at = f"{path}.{key}" if path else key
        bare = _without_none(hints[name])
        if get_origin(bare) is dict and _is_section(get_args(bare)[1]):
            yield f"{at}.{_KEYS[key]}", get_args(bare)[1]
        elif get_origin(bare) is tuple and _is_section(get_args(bare)[0]):
            yield f"{at}[]", get_args(bare)[0]
        elif _is_section(bare):
            yield at, bare


def _type(hint: Any) -> str:
    if word := _word(hint) or _word(hint := _without_none(hint)):
        return word
    if get_origin(hint) is Annotated:
        return _type(get_args(hint)[0])
    if hint is Secret:
        return "secret"
    if get_origin(hint) is Literal:
        return codes(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "list of sections" if _is_section(get_args(hint)[0]) else f"list of {_plural(_type(get_args(hint)[0]))}"
    if get_origin(hint) is dict:
        key, value = get_args(hint)
        keys = _plural(_type(key).removesuffix(" or glob"))
        return f"map of {keys} to {'sections' if _is_section(value) else _plural(_type(value))}"
    if _is_section(hint):
        return "section"
    if hint is str:
        return "text"
    raise TypeError(f"no words for {hint!r}")


def _word(hint: Any) -> str:
    if get_origin(hint) is not Annotated:
        return ""
    bare, *rules = get_args(hint)
    known = [(get_args(alias), word) for alias, word in _WORDS.items()]
    sizes = {len(own) - 1: word for own, word in known if own == (bare, *rules[: len(own) - 1])}
    if not sizes:
        return ""
    size = max(sizes)
    return f"{sizes[size]}{_bounds(rules[size:])}"


def _bounds(rules: list[Any]) -> str:
    for rule in rules:
        if isinstance(rule, AfterValidator) and isinstance(rule.func, Bounds):
            bounds = rule.func
            return f", {bounds.text(bounds.least)} to {bounds.text(bounds.most)}"
        if isinstance(rule, FieldInfo):
            least = next(it.ge for it in rule.metadata if isinstance(it, Ge))
            most = next(it.le for it in rule.metadata if isinstance(it, Le))
            return f", {least} to {most}"
    return ""


def _plural(word: str) -> str:
    if word.startswith("`"):
        return word
    return f"lists{word.removeprefix('list')}" if word.startswith("list") else _PLURALS.get(word, f"{word}s")


def _default(section: type[Section], name: str, info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if info.default_factory is not None:
        return "see meaning"
    if info.default is None:
        return "none"
    if isinstance(info.default, Section):
        return ""
    schema = json_schema()
    own = schema if section is Config else schema["$defs"][section.__name__]
    default = own["properties"][info.alias or name]["default"]
    return code(default if isinstance(default, str) else json.dumps(default))


def _without_none(hint: Any) -> Any:
    """`X | None` is `X`; so is `Annotated[X | None, …]`, whose rule only concerns a line left blank."""
    union = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    options = get_args(union)
    if type(None) not in options or get_origin(union) not in (Union, types.UnionType):
        return hint
    (hint,) = [option for option in options if option is not type(None)]
    return hint


def _is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)
