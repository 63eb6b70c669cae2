"""What can be configured. Durations are seconds and sizes are bytes once parsed.

Descriptions go into the JSON schema and the reference page, so each is one plain sentence.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from rowgate.config.authentication import Auth, Extension
from rowgate.config.limits import CounterStore, EntryLimits, GatewayLimits, ServerLimits, StoreUrl
from rowgate.config.plugin import Plugin
from rowgate.config.rules import Authorizer, Meta, Policy, Require, Scopes
from rowgate.config.secret import OptionalSecret, Secret
from rowgate.config.section import Section
from rowgate.config.values import (
    Address,
    BaseUrl,
    Duration,
    Flag,
    Host,
    Listen,
    Name,
    Proxies,
    PublicUrl,
    Size,
    Text,
    TrustedUrl,
    WebOrigin,
    refuse,
    seconds,
    size,
    whole,
)

# --- the gateway itself ------------------------------------------------------------------------------------


class Request(Section):
    """Bounds of one request."""

    max_bytes: Annotated[Size, size(1024, 64 * 2**20)] = Field(
        2**20, description="Largest request body that is read; a larger one is answered 413."
    )
    timeout: Annotated[Duration, seconds(1, 3600)] = Field(
        60.0,
        description="End of any call, streamed or not, however busy; also how long a request body may take to arrive.",
    )


class Context(Section):
    """The signed statement of who calls, which every plugin receives."""

    signing_key: OptionalSecret = Field(
        None,
        description="Private Ed25519 key as a JWK or PEM that signs the context; "
        "without it each start makes a new key, so the gateway can only run alone.",
    )
    previous_keys: tuple[Secret, ...] = Field(
        (),
        description="Further Ed25519 keys, public or private, published while keys change: the next or the last.",
    )
    lifetime: Annotated[Duration, seconds(1, 300)] = Field(
        60.0, description="How long a signed context is valid, 1s to 300s."
    )


class Log(Section):
    """The log on standard output."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe line that is written."
    )
    format: Literal["json", "console"] = Field(
        "json", description="One JSON object for each line, or text for a terminal."
    )


class Shutdown(Section):
    """What happens after SIGTERM."""

    delay: Annotated[Duration, seconds(0, 300)] = Field(
        0.0, description="How long the gateway still accepts requests while it already reports not ready."
    )
    timeout: Annotated[Duration, seconds(0, 3600)] = Field(
        25.0, description="How long requests in flight may go on before they are cut off."
    )


class Gateway(Section):
    """The gateway itself: its public address, its listeners and what it takes."""

    public_url: PublicUrl = Field(
        description="Origin under which clients reach the gateway: every URL that it emits begins with it."
    )
    listen: Listen = Field(Address("0.0.0.0", 8080), description="Address and port of the public listener.")  # noqa: S104
    internal_listen: Listen = Field(
        Address("127.0.0.1", 9090),
        description="Address and port of the internal listener: health, metrics and the context's public keys.",
    )
    trusted_proxies: tuple[Proxies, ...] = Field(
        (), description="Networks of the proxies whose X-Forwarded-For names the client address."
    )
    allowed_origins: tuple[WebOrigin, ...] = Field(
        (), description="Exact web origins that may call from a browser; requests without an Origin are not concerned."
    )
    allowed_hosts: tuple[Host, ...] = Field(
        (), description="Further values of the Host header that are answered, beside the host of public_url."
    )
    limits_store: CounterStore = Field(
        StoreUrl("memory"),
        description="Where requests are counted: memory for one process, or redis://, rediss:// or postgresql:// "
        "for all replicas; a URL with a password is a secret.",
    )
    limits: GatewayLimits = Field(GatewayLimits(), description="Limits of the gateway as a whole.")
    request: Request = Field(Request(), description="How large one request and how long its answer may be.")
    context: Context = Field(Context(), description="How the context that plugins receive is signed.")
    log: Log = Field(Log(), description="What is written to standard output, and how.")
    event_sinks: tuple[Extension, ...] = Field(
        (),
        description="Callables that get every event, on a thread of their own: package.module:object, or entry points.",
    )
    shutdown: Shutdown = Field(Shutdown(), description="How long requests in flight may still run after SIGTERM.")


class Supabase(Section):
    """The Supabase project in front of which the gateway stands."""

    url: BaseUrl = Field(description="URL of the project, as its clients use it.")
    issuer: TrustedUrl = Field(
        default_factory=lambda data: data["url"] + "/auth/v1",
        description="The iss claim of the project's tokens, byte for byte; by default url with /auth/v1.",
    )
    jwks_url: TrustedUrl = Field(
        default_factory=lambda data: data["issuer"].rstrip("/") + "/.well-known/jwks.json",
        description="Where the project publishes its public keys; by default issuer with /.well-known/jwks.json.",
    )
    publishable_key: Secret | None = Field(
        None, description="The project's publishable (or anon) key, for questions that the gateway asks as a user."
    )
    secret_key: Secret | None = Field(
        None, description="The project's secret key, only for functions that nobody but the gateway may call."
    )
    jwt_secret: Secret | None = Field(
        None,
        description="The legacy HS256 secret of a project that publishes no keys; its tokens are then verified with it "
        "alone.",
    )


# --- servers -----------------------------------------------------------------------------------------------


class Hints(Section):
    """What clients are told about a tool, where the plugin does not say it or says it wrongly."""

    title: Text | None = Field(None, description="Name of the tool for people.")
    read_only: Flag | None = Field(None, description="Whether the tool changes nothing.")
    destructive: Flag | None = Field(None, description="Whether the tool may delete or overwrite.")
    idempotent: Flag | None = Field(None, description="Whether repeating the call changes nothing more.")
    open_world: Flag | None = Field(None, description="Whether the tool reaches beyond the application.")


def _pattern(value: str) -> str:
    if not value or len(value) > 512 or any(ord(char) <= 32 or ord(char) == 127 for char in value):
        raise refuse("must be a name or a glob of 1 to 512 characters without blanks")
    return value


def _prefix(value: str) -> str:
    if not 1 <= len(value) <= 32 or not set(value) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-"):
        raise refuse("must be 1 to 32 lower-case letters, digits, - and _")
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]


class Entry(Section):
    """Capabilities of one plugin that a server exposes. What no entry names is not exposed."""

    plugin: Text = Field(alias="from", description="Name of the plugin.")
    tools: tuple[Pattern, ...] = Field((), description="Names or globs of tools; * stops at /, ** does not.")
    resources: tuple[Pattern, ...] = Field((), description="URIs or globs of resources; * stops at /, ** does not.")
    templates: tuple[Pattern, ...] = Field((), description="URI templates, or globs of them.")
    prompts: tuple[Pattern, ...] = Field((), description="Names or globs of prompts.")
    prefix: Annotated[str, AfterValidator(_prefix)] | None = Field(
        None, description="Put before the names of tools and prompts, where several plugins share a server."
    )
    require: Require = Field(Require(), description="What a caller needs for these capabilities.")
    meta: Meta = Field({}, description="Anything that the server's hook should know of these; clients never see it.")
    limits: EntryLimits = Field(EntryLimits(), description="How often a caller may use these capabilities.")
    hints: dict[Pattern, Hints] = Field({}, description="Hints for each tool, by the plugin's own name for it.")


def _path(value: str) -> str:
    segments = value.split("/")[1:]
    if not value.startswith("/") or value == "/":
        raise refuse("must begin with / and name a path, such as /mcp")
    if value.endswith("/"):
        raise refuse("must not end with /")
    if "%" in value:
        raise refuse("must not contain encoded characters")
    if "" in segments or "." in segments or ".." in segments:
        raise refuse("must not contain empty or dot segments")
    if ".well-known" in segments:
        raise refuse("must not contain .well-known: discovery documents stand there")
    if len(value) > 256 or not all(char.isascii() and (char.isalnum() or char in "-._~") for char in "".join(segments)):
        raise refuse("must be at most 256 letters, digits, -, ., _ and ~ between slashes")
    return value


def _brief(value: str) -> str:
    if len(value.encode()) > 4096:
        raise refuse("must not be longer than 4 KiB")
    return value


ServerPath = Annotated[str, AfterValidator(_path)]


class Server(Section):
    """A public MCP endpoint."""

    path: ServerPath = Field(description="Path of the endpoint under public_url.")
    title: Annotated[Text, AfterValidator(_brief)] | None = Field(
        None, description="Name of the server for people; shown by clients when they connect."
    )
    instructions: Annotated[Text, AfterValidator(_brief)] | None = Field(
        None, description="What the model is told about this server, at most 4 KiB."
    )
    auth: Auth = Field(description="Who may call.")
    scopes: Scopes = Field(Scopes(), description="What tokens say the caller may do.")
    authorizer: Authorizer | None = Field(None, description="Whom to ask about permissions.")
    policy: Policy | None = Field(None, description="Rules in code, for what this file cannot say.")
    limits: ServerLimits = Field(ServerLimits(), description="How often callers may ask, and how much at once.")
    metadata: Literal["path", "suffix"] = Field(
        "path",
        description="Which URL of the resource metadata challenges name: "
        "below /.well-known, or below the endpoint for platforms that publish nothing else.",
    )
    capabilities: tuple[Entry, ...] = Field(min_length=1, description="What the server exposes, entry by entry.")


class Config(Section):
    """The whole configuration of one gateway."""

    version: Annotated[Literal[1], BeforeValidator(whole)] = Field(description="Version of this format.")
    gateway: Gateway = Field(description="The gateway itself.")
    supabase: Supabase | None = Field(
        None, description="The Supabase project; not needed where every server has an issuer."
    )
    plugins: dict[Name, Plugin] = Field(min_length=1, description="Plugins by name.")
    servers: dict[Name, Server] = Field(min_length=1, description="Servers by name.")
