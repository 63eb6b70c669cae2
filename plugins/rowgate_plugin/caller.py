"""The caller of the current request, as an author meets it."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn, TypeVar, cast

from mcp.server.mcpserver import Resolve

from rowgate_plugin.contract import Actor, Context, ContextKind
from rowgate_plugin.settings import SettingsError
from rowgate_plugin.supabase import Supabase

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

CURRENT: ContextVar[Caller] = ContextVar("rowgate_plugin.caller")


@dataclass(frozen=True, slots=True)
class User:
    id: str
    email: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the gateway verified it. New for each request; nothing of it may be kept for another one."""

    kind: ContextKind
    subject: str | None
    """None for the gateway itself and for the public."""
    user: User | None
    """None unless `kind` is `user`."""
    server: str
    """The gateway's public server through which the call came."""
    request_id: str
    issuer: str
    """The gateway that signed the context."""
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    role: str | None = None
    aal: str | None = None
    session_id: str | None = field(default=None, repr=False)
    actors: tuple[Actor, ...] = ()
    """Who acts for the subject, the current actor first (RFC 8693 §4.1)."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    grant: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the user allowed this client, the workspace among it."""
    run: str | None = None
    trace_id: str | None = None
    extra: Any = field(default=None, repr=False)
    """What the author's `extend` returned for this request."""
    client: Supabase | None = field(default=None, repr=False)

    @property
    def actor(self) -> Actor | None:
        return self.actors[0] if self.actors else None

    @property
    def supabase(self) -> Supabase:
        """Supabase as this caller: every row passes Row Level Security. Anonymous when there is no user."""
        if self.client is None:
            raise SettingsError("SUPABASE_URL and SUPABASE_PUBLISHABLE_KEY are not set for this plugin")
        return self.client

    def has_scope(self, *scopes: str) -> bool:
        """Whether the caller has every one of them."""
        return self.scopes.issuperset(scopes)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> NoReturn:
        # Pydantic asks when a caller is about to become an argument that a client fills in.
        raise TypeError(
            "a caller is never an argument of the client: annotate a tool's parameter with CurrentCaller, "
            "and put @with_caller under the decorator of a prompt, resource or completion"
        )


def caller_from(context: Context, client: Supabase | None) -> Caller:
    user = User(context.sub, context.email) if context.kind == "user" and context.sub else None
    return Caller(
        kind=context.kind,
        subject=context.sub,
        user=user,
        server=context.server,
        request_id=context.request_id,
        issuer=context.iss,
        client_id=context.client_id,
        scopes=context.scope,
        role=context.role,
        aal=context.aal,
        session_id=context.session_id,
        actors=context.act,
        claims=context.claims,
        grant=context.grant,
        run=context.run,
        trace_id=context.trace_id,
        client=client,
    )


def current_caller() -> Caller:
    """The caller of the request being served; `LookupError` outside of one."""
    try:
        return CURRENT.get()
    except LookupError:
        raise LookupError("there is no caller: this code does not run inside a request from the gateway") from None


async def _resolve() -> Caller:
    return current_caller()


CurrentCaller = Annotated[Caller, Resolve(_resolve)]
"""Annotate a parameter with it to receive the caller; it does not appear in the input schema.

Tools take it as it is. Prompts, resources, resource templates and completions need `@with_caller` below their
decorator, because the SDK resolves parameters of tools only.
"""


def with_caller(handler: _Handler) -> _Handler:
    """Fill the `CurrentCaller` parameters of any handler, and hide them from the SDK and so from the client."""
    signature = inspect.signature(handler, eval_str=True)
    names = [name for name, parameter in signature.parameters.items() if _wants_caller(parameter.annotation)]
    if not names:
        raise TypeError(f"{handler.__qualname__} has no parameter annotated with CurrentCaller")

    if inspect.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def filled(*arguments: Any, **named: Any) -> Any:
            return await handler(*arguments, **named, **dict.fromkeys(names, current_caller()))
    else:

        @functools.wraps(handler)
        def filled(*arguments: Any, **named: Any) -> Any:
            return handler(*arguments, **named, **dict.fromkeys(names, current_caller()))

    visible = [parameter for name, parameter in signature.parameters.items() if name not in names]
    hints = typing.get_type_hints(handler, include_extras=True)
    filled.__signature__ = signature.replace(parameters=visible)  # type: ignore[attr-defined]
    filled.__annotations__ = {name: hint for name, hint in hints.items() if name not in names}
    return cast("_Handler", filled)


def _wants_caller(annotation: Any) -> bool:
    markers = getattr(annotation, "__metadata__", ())
    return any(isinstance(marker, Resolve) and marker.fn is _resolve for marker in markers)
