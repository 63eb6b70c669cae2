"""The section of one plugin: how it is reached, what it is trusted with, and its bounds."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)

from rowgate.config.limits import Count
from rowgate.config.secret import SECRET_SCHEMA, Secret, resolve
from rowgate.config.section import Section
from rowgate.config.values import (
    AbsolutePath,
    Backoff,
    Duration,
    Flag,
    PluginUrl,
    Size,
    Spread,
    Text,
    Whole,
    printable,
    refuse,
    seconds,
    size,
    spread,
)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_ENDPOINT = re.compile(r"/[\x21\x24-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e%]{0,1023}", re.ASCII)
_GIVEN = ("ROWGATE_PLUGIN", "ROWGATE_CONTEXT_", "LISTEN_")
_SECRET_NAME = re.compile(r"(?i)secret|passw|token|credential|private|api_?key|_key$|_dsn$|database_url$")
_PUBLIC_NAME = re.compile(r"(?i)(?:publishable|anon|public)_key$")


def _host_name(value: str) -> str:
    if not _HOST_NAME.fullmatch(value):
        raise refuse("must be a lower-case host name")
    return value


class Tls(Section):
    """TLS to a plugin that is reached by an https URL. Without it the roots of the system are trusted."""

    ca: AbsolutePath | None = Field(
        None, description="PEM file of the authorities to trust for this plugin, instead of the system's."
    )
    certificate: AbsolutePath | None = Field(None, description="PEM file of the certificate that the gateway shows.")
    key: AbsolutePath | None = Field(None, description="PEM file of that certificate's private key, not encrypted.")
    server_name: Annotated[str, AfterValidator(_host_name)] | None = Field(
        None, description="Name that the plugin's certificate must have; by default the host of url."
    )


class Restart(Section):
    """When a plugin that ended is started again."""

    backoff: Annotated[Backoff, spread(0.1, 3600)] = Field(
        Spread(1.0, 30.0),
        description="Pause before a restart: the first doubles with each failure up to the last, "
        "and counts afresh once the plugin answered for that long.",
    )


def _endpoint(value: str) -> str:
    if not _ENDPOINT.fullmatch(value):
        raise refuse("must be a path such as /mcp")
    return value


def _command(value: object) -> object:
    if isinstance(value, str):
        raise refuse("must be a list, one item for each argument", "It is run without a shell: [python, -m, notes].")
    return value


def _argument(value: str) -> str:
    if "\0" in value:
        raise refuse("must not contain a NUL")
    return value


def _variable(value: str) -> str:
    if not _VARIABLE.fullmatch(value):
        raise refuse("must be the name of an environment variable")
    if value.startswith(_GIVEN):
        raise refuse("is set by the gateway itself")
    return value


def _content(value: object, info: ValidationInfo) -> str | Secret:
    if isinstance(value, str):
        return printable(value)
    if value is None or isinstance(value, bool | int | float):
        raise refuse("must be text", "Put it in quotes.")
    return resolve(value, info)


def _shown(value: str | Secret) -> str | dict[str, str]:
    return value.origin() if isinstance(value, Secret) else value


def literal_secret(name: str, value: str) -> bool:
    """Whether a value that stands in the file is one that should not."""
    return bool(
        value.startswith(("sb_secret_", "-----BEGIN")) or (_SECRET_NAME.search(name) and not _PUBLIC_NAME.search(name))
    )


Argument = Annotated[str, AfterValidator(_argument)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
VariableName = Annotated[str, AfterValidator(_variable)]
VariableValue = Annotated[
    str | Secret,
    PlainValidator(_content),
    PlainSerializer(_shown),
    WithJsonSchema({"anyOf": [{"type": "string"}, SECRET_SCHEMA]}),
]


class Plugin(Section):
    """A process that implements capabilities. It is reached by exactly one of url, socket and command."""

    url: PluginUrl | None = Field(
        None, description="MCP endpoint of the plugin, http or https; its path is kept as written."
    )
    socket: AbsolutePath | None = Field(None, description="Unix socket on which the plugin listens.")
    command: Annotated[tuple[Argument, ...], BeforeValidator(_command)] | None = Field(
        None,
        min_length=1,
        description="Program and arguments of a plugin that the gateway starts, restarts and stops; no shell.",
    )
    path: Endpoint | None = Field(None, description="Path of the MCP endpoint at a socket or command; by default /mcp.")
    socket_owner: Text | None = Field(
        None,
        description="User, by name or number, that must listen on the socket; by default the gateway's own; "
        "root is trusted always.",
    )
    env: dict[VariableName, VariableValue] = Field(
        {}, description="Environment variables of the command: text, or a secret from env or file."
    )
    cwd: AbsolutePath | None = Field(None, description="Directory that the command starts in; by default the root.")
    restart: Restart = Field(Restart(), description="How the command is started again when it ended.")
    tls: Tls | None = Field(None, description="Whom to trust at an https url, and how to identify to it.")
    credential: Literal["none", "user_token"] = Field(
        "none", description="What the plugin receives in Authorization: nothing, or the caller's own Supabase token."
    )
    lists: Literal["shared", "per_caller"] = Field(
        "shared", description="Whether the plugin offers everybody the same lists or each caller their own."
    )
    timeout: Annotated[Duration, seconds(0.1, 3600)] = Field(
        30.0, description="Longest wait for an answer, and between two events of a stream."
    )
    connect_timeout: Annotated[Duration, seconds(0.1, 60)] = Field(
        5.0, description="Longest wait for a connection to the plugin."
    )
    privileged: Flag = Field(
        False,
        description="Whether it holds a key that passes Row Level Security: each of its entries then needs a rule.",
    )
    required: Flag = Field(False, description="Whether the gateway reports ready only once this plugin has answered.")
    hints: Literal["require", "default"] = Field(
        "require",
        description="Whether a tool without title and behavior hints is left out, or gets conservative defaults.",
    )
    list_ttl: Annotated[Duration, seconds(1, 86400)] = Field(
        60.0, description="How long the plugin's lists are kept before they are asked for again."
    )
    max_answer_bytes: Annotated[Size, size(1024, 256 * 2**20)] = Field(
        4 * 2**20, description="Largest answer, or event of a stream, that is taken from the plugin."
    )
    result_limit: Annotated[Whole, Field(ge=0, le=100_000_000)] = Field(
        150_000, description="Characters after which a tool result is cut and says so; 0 sets no limit."
    )
    max_connections: Annotated[Whole, Field(ge=1, le=10_000)] = Field(
        100, description="Most connections that are open to the plugin at once."
    )
    concurrency: Count = Field(
        None, description="Calls that may run in the plugin at once from one gateway process; further ones are refused."
    )

    @property
    def endpoint(self) -> str:
        """Where it is asked; the host of one behind a socket is this machine."""
        return self.url or f"http://localhost{self.path or '/mcp'}"
