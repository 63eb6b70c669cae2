"""The environment of a plugin that the gateway starts: nothing of the gateway's own but what is listed here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowgate.config.plugin import Plugin
from rowgate.config.secret import Secret

if TYPE_CHECKING:
    from rowgate.config.models import Config
    from rowgate.upstream.context import ContextKeys

INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""And every LC_*: where programs and certificates lie, and how text and time are written."""


class PluginEnvironment:
    def __init__(self, config: Config, keys: ContextKeys, environ: Mapping[str, str] = os.environ) -> None:
        self._inherited = {
            name: value for name, value in environ.items() if name in INHERITED or name.startswith("LC_")
        }
        self._given = {
            "PYTHONUNBUFFERED": "1",
            "ROWGATE_CONTEXT_JWKS": keys.jwks.decode(),
            "ROWGATE_CONTEXT_ISSUER": config.gateway.public_url,
        }
        project = config.supabase
        self._project = {}
        if project is not None and project.publishable_key is not None:
            key = project.publishable_key.reveal()
            self._project = {"SUPABASE_URL": project.url, "SUPABASE_PUBLISHABLE_KEY": key}

    def __call__(self, name: str, plugin: Plugin) -> dict[str, str]:
        own = {key: value.reveal() if isinstance(value, Secret) else value for key, value in plugin.env.items()}
        return {**self._inherited, **self._project, **own, **self._given, "ROWGATE_PLUGIN": name}
