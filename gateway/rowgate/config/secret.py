"""Secrets of the configuration: named in the file, held elsewhere, never shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from rowgate.config.values import refuse

MAX_BYTES = 64 * 1024
SECRET_SCHEMA: JsonSchemaValue = {
    "oneOf": [
        {
            "type": "object",
            "properties": {key: {"type": "string", "minLength": 1}},
            "required": [key],
            "additionalProperties": False,
        }
        for key in ("env", "file")
    ]
}
_PLACEHOLDER = re.compile(
    r"(?:change|replace)[ _-]?(?:me|this)?|(?:your|my)[ _-].*|<.*>|\[.*\]|x{3,}|\*+|\.{3,}"
    r"|todo|tbd|none|null|undefined|example|placeholder|dummy|test|secret|password|insecure|default",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where secrets are looked up. It is the `context` of a validation."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    directory: Path = Path()
    """Relative `file` paths start here: the directory of the configuration file."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that `repr`, `str` and dumps hide."""

    _value: str = field(repr=False)
    source: Literal["env", "file", "given"] = "given"
    name: str = ""
    """The variable or path that the value came from."""

    def reveal(self) -> str:
        return self._value

    def __str__(self) -> str:
        return repr(self)

    def origin(self) -> dict[str, str]:
        """What may be shown instead of the value."""
        return {self.source: self.name} if self.source != "given" else {"given": "hidden"}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            resolve, serialization=core_schema.plain_serializer_function_ser_schema(cls.origin)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return SECRET_SCHEMA


def _given(value: object, info: ValidationInfo) -> object:
    # A line that was left blank would silently mean: no key.
    if value is None and isinstance(info.context, Sources):
        raise refuse("is empty", "Write {env: NAME} or {file: PATH}, or remove the line.")
    return value


def resolve(value: object, info: ValidationInfo) -> Secret:
    """The validator of a secret."""
    if isinstance(value, Secret):
        return value
    sources = info.context if isinstance(info.context, Sources) else Sources()
    if isinstance(value, str):
        raise refuse("must not stand in this file", "Write {env: NAME} or {file: PATH}.")
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"env", "file"}:
        raise refuse("must be {env: NAME} or {file: PATH}")
    (kind, name), *_ = value.items()
    if not isinstance(name, str) or not name.strip():
        raise refuse(f"must name {'a variable' if kind == 'env' else 'a file'} in `{kind}`")
    if kind == "env":
        return Secret(_sound(_from_env(name, sources.env), f"the variable {name}"), "env", name)
    return Secret(_sound(_from_file(sources.directory / name), "the file"), "file", name)


def _from_env(name: str, env: Mapping[str, str]) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name, re.ASCII):
        # Most likely the secret itself was pasted here, so it is not repeated.
        raise refuse("must name an environment variable in `env`", "`env` takes the variable's name, not its value.")
    value = env.get(name)
    if value is None:
        raise refuse(f"comes from the variable {name}, which is not set")
    return value


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        raise refuse("comes from a file that cannot be read", "Check the path and who may read it.") from None
    if len(raw) > MAX_BYTES:
        raise refuse(f"comes from a file larger than {MAX_BYTES // 1024} KiB")
    try:
        return raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise refuse("comes from a file that is not UTF-8 text") from None


def _sound(value: str, where: str) -> str:
    if not value.strip():
        raise refuse(f"is empty: {where} holds nothing", "An empty secret would let everybody in.")
    if "\0" in value:
        raise refuse(f"is not text: {where} holds a NUL")
    if _PLACEHOLDER.fullmatch(value.strip()):
        raise refuse(f"is a placeholder: {where} holds a word that everybody can guess")
    return value


OptionalSecret = Annotated[Secret | None, BeforeValidator(_given)]
