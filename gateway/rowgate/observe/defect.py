"""What may be said of an exception: where it came from, and never what it carried."""

from __future__ import annotations

import traceback

from rowgate.observe.redaction import redact

LINES = 120
WIDTH = 500
LEFT_OUT = "[message left out]"


def describe(error: BaseException) -> str:
    """The traceback, without local variables. Messages that would quote input are left out, the rest is redacted."""
    lines: list[str] = []
    if quotes_input(error):
        for link in reversed(_chain(error)):
            lines += [*traceback.format_tb(link.__traceback__), f"{type_name(link)}: {LEFT_OUT}\n"]
    else:
        lines = list(traceback.TracebackException.from_exception(error).format())
    # A line keeps its beginning, by which a credential on it is recognised.
    text = redact("\n".join(line[: 8 * WIDTH] for line in "".join(lines).rstrip("\n").split("\n")))
    return "\n".join(line[:WIDTH] for line in text.split("\n")[-LINES:])


def type_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")


def quotes_input(error: BaseException) -> bool:
    """Parsers and validators put what they were given into their messages: header bytes, arguments, secrets."""
    return any(
        cls.__module__.partition(".")[0] in ("pydantic_core", "jsonschema")
        or cls.__module__ == "aiohttp.http_exceptions"
        for link in _chain(error)
        for cls in type(link).__mro__
    )


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what caused it, and the members of groups, each once."""
    links: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        link = pending.pop()
        if link is None or any(link is known for known in links):
            continue
        links.append(link)
        pending += [link.__context__, link.__cause__]
        if isinstance(link, BaseExceptionGroup):
            pending += link.exceptions
    return links
