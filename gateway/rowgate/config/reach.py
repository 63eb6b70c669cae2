"""Whether a plugin can be reached as its section says, and whom that trusts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rowgate.config.plugin import Plugin, Tls, literal_secret
from rowgate.config.problems import Finding, Location
from rowgate.config.values import is_loopback
from rowgate.errors import StartError
from rowgate.upstream.tls import tls_context
from rowgate.upstream.unix import MAX_PATH

if TYPE_CHECKING:
    from rowgate.config.models import Gateway, Supabase

_WAYS = ("url", "socket", "command")
_BELONGS = {
    "path": ("socket", "command"),
    "socket_owner": ("socket",),
    "env": ("command",),
    "cwd": ("command",),
    "restart": ("command",),
    "tls": ("url",),
}


def reach(plugin: Plugin, at: Location, gateway: Gateway | None, supabase: Supabase | None) -> Iterator[Finding]:
    ways = [way for way in _WAYS if getattr(plugin, way) is not None]
    if not ways:
        hint = "A plugin is reached by a url, by a socket, or by a command that the gateway starts."
        yield Finding((*at, "url"), "is missing", hint, of_key=True)
    for way in ways[1:]:
        hint = "A plugin is reached by exactly one of url, socket and command."
        yield Finding((*at, way), f"cannot stand beside {ways[0]}", hint, of_key=True)
    for setting, owners in _BELONGS.items():
        default = Plugin.model_fields[setting].get_default()
        if getattr(plugin, setting) != default and ways and not set(owners) & set(ways):
            where = " or ".join(owners)
            yield Finding((*at, setting), f"does nothing without {where}", "Remove it.", of_key=True)
    if plugin.url is not None:
        yield from _url(plugin, plugin.url, at, gateway)
    if plugin.socket is not None and len(plugin.socket.encode()) > MAX_PATH:
        yield Finding((*at, "socket"), f"is longer than {MAX_PATH} bytes, which the system does not take")
    if plugin.command is not None:
        yield from _command(plugin, plugin.command, at, gateway)
        untold = supabase is not None and supabase.publishable_key is None
        if plugin.credential == "user_token" and untold and "SUPABASE_PUBLISHABLE_KEY" not in plugin.env:
            hint = "Set supabase.publishable_key: the command then gets it with the project's URL."
            yield Finding((*at, "credential"), "gives a token for a project that is not told", hint, "warning")


def _url(plugin: Plugin, url: str, at: Location, gateway: Gateway | None) -> Iterator[Finding]:
    parts = urlsplit(url)
    if plugin.credential == "user_token" and parts.scheme == "http" and not is_loopback(parts.hostname):
        yield Finding(
            (*at, "url"),
            "sends users' tokens over clear http",
            "Use https, or make sure that nobody else is on this network.",
            "warning",
        )
    if gateway is not None and (parts.scheme, parts.netloc.lower()) == tuple(urlsplit(gateway.public_url))[:2]:
        yield Finding((*at, "url"), "points at this gateway itself", "Name the plugin's own address.")
    if plugin.tls is not None:
        yield from _tls(plugin.tls, parts.scheme, (*at, "tls"))


def _tls(tls: Tls, scheme: str, at: Location) -> Iterator[Finding]:
    if scheme != "https":
        yield Finding(at, "does nothing with an http url", "Write https in url.", of_key=True)
    elif tls == Tls():
        yield Finding(at, "says nothing", of_key=True)
    elif (tls.certificate is None) != (tls.key is None):
        given, missing = ("certificate", "key") if tls.key is None else ("key", "certificate")
        yield Finding((*at, given), f"needs {missing} beside it")
    elif all(Path(file).exists() for file in (tls.ca, tls.certificate, tls.key) if file is not None):
        # Files that are not here may be where the gateway runs: there it does not start without them.
        try:
            tls_context(tls)
        except StartError as error:
            yield Finding(at, error.message, of_key=True)


def _command(plugin: Plugin, command: tuple[str, ...], at: Location, gateway: Gateway | None) -> Iterator[Finding]:
    program = command[0]
    if "/" in program and not program.startswith("/"):
        yield Finding((*at, "command", 0), "must be an absolute path, or a name that is looked up in PATH")
    elif not program or (len(command) == 1 and " " in program):
        hint = "It is run without a shell: [python, -m, notes]."
        yield Finding((*at, "command", 0), "must be a program, with its arguments as further items", hint)
    for name, value in plugin.env.items():
        if isinstance(value, str) and literal_secret(name, value):
            yield Finding((*at, "env", name), "must not stand in this file", "Write {env: NAME} or {file: PATH}.")
    if gateway is not None and gateway.context.signing_key is not None and _symmetric(gateway):
        hint = "With a shared secret the plugin could sign contexts itself: use an Ed25519 key."
        yield Finding((*at, "command"), "cannot verify contexts that are signed with a symmetric key", hint)


def _symmetric(gateway: Gateway) -> bool:
    key = gateway.context.signing_key
    try:
        document = json.loads(key.reveal()) if key is not None else None
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("kty") == "oct"
