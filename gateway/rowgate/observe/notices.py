"""What an operator should know of the settings in force: said in the log at each start, and counted."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from rowgate.config.defaults import issuer_of
from rowgate.config.models import Config
from rowgate.config.values import is_loopback
from rowgate.observe.events import SecurityNotice


def security_notices(config: Config) -> Iterator[SecurityNotice]:
    if config.gateway.context.signing_key is None:
        yield SecurityNotice(
            "context_key_ephemeral",
            "gateway.context.signing_key is not set: this gateway can only run alone, and its plugins have to fetch "
            "its key again after each start.",
        )
    for name, server in config.servers.items():
        if (
            server.auth.mode == "oauth"
            and config.gateway.public_url + server.path not in issuer_of(config, server).audience
        ):
            yield SecurityNotice(
                "audience_unbound",
                f"Tokens for server {name} are not bound to it: any OAuth token of this issuer opens it, and each of "
                "them is a full token of its user at Supabase.",
            )
    for name, plugin in config.plugins.items():
        url = urlsplit(plugin.url)
        if plugin.credential == "user_token" and url.scheme == "http" and not is_loopback(url.hostname):
            yield SecurityNotice(
                "user_token_over_clear_http", f"Plugin {name} receives users' tokens over a connection without TLS."
            )
