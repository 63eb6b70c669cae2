"""What an operator should know of the settings in force: said in the log at each start, and counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from urllib.parse import urlsplit

from aiohttp import ClientSession

from rowgate.auth.server_metadata import refused_scopes
from rowgate.config.defaults import issuers_of
from rowgate.config.models import Config, Server
from rowgate.config.values import is_loopback
from rowgate.observe.events import SecurityNotice
from rowgate.supabase.project import advertised_scopes


def security_notices(config: Config) -> Iterator[SecurityNotice]:
    if config.gateway.context.signing_key is None:
        yield SecurityNotice(
            "context_key_ephemeral",
            "gateway.context.signing_key is not set: this gateway can only run alone, and its plugins have to fetch "
            "its key again after each start.",
        )
    for name, server in config.servers.items():
        yield from _callers(name, server, config)
        resource = config.gateway.public_url + server.path
        if server.auth.mode == "oauth" and not all(
            resource in issuer.audience for issuer in issuers_of(config, server)
        ):
            yield SecurityNotice(
                "audience_unbound",
                f"Tokens for server {name} are not bound to it: any OAuth token of this issuer opens it, and each of "
                "them is a full token of its user at Supabase.",
            )
    for name, plugin in config.plugins.items():
        if plugin.privileged:
            yield SecurityNotice(
                "privileged_plugin",
                f"Plugin {name} holds a key that passes Row Level Security: only the rules of its entries decide what "
                "a caller gets from it.",
            )
        url = urlsplit(plugin.url or "")
        if plugin.credential == "user_token" and url.scheme == "http" and not is_loopback(url.hostname):
            yield SecurityNotice(
                "user_token_over_clear_http", f"Plugin {name} receives users' tokens over a connection without TLS."
            )


async def scope_notices(config: Config, session: ClientSession) -> AsyncIterator[SecurityNotice]:
    """Those that only the authorization servers can tell. One that does not answer is not worth a word here."""
    for name, server in config.servers.items():
        scopes = advertised_scopes(config, server) if server.auth.mode == "oauth" else ()
        for issuer in issuers_of(config, server) if scopes else ():
            if refused := await refused_scopes(session, issuer.issuer, scopes):
                yield advertised_scope_refused(name, issuer.issuer, refused)


def advertised_scope_refused(server: str, issuer: str, scopes: Iterable[str]) -> SecurityNotice:
    return SecurityNotice(
        "advertised_scope_refused",
        f"Server {server} advertises {' '.join(scopes)}, which {issuer} does not list among its scopes: clients that "
        "ask for it may be refused at sign-in.",
    )


def _callers(name: str, server: Server, config: Config) -> Iterator[SecurityNotice]:
    if server.auth.mode == "public":
        exposed = [
            text
            for entry in server.capabilities
            for text in (*entry.tools, *entry.resources, *entry.templates, *entry.prompts)
        ]
        yield SecurityNotice(
            "public_server", f"Anyone can use server {name} without signing in. It exposes {', '.join(exposed)}."
        )
    for issuer in issuers_of(config, server):
        if issuer.secret is not None:
            yield SecurityNotice(
                "shared_secret",
                f"Tokens for server {name} are verified with a secret: whoever knows it can make them for anyone.",
            )
    if server.auth.session.check.max_age is not None and server.auth.session.on_error == "accept":
        yield SecurityNotice(
            "session_unchecked_on_error",
            f"While Supabase Auth gives no answer, server {name} lets in users who may have signed out.",
        )
