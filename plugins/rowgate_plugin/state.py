"""`requestState` of multi-round calls: sealed, and bound to the caller it was given to."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Mapping
from typing import Any

from mcp.server import MCPServer, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from rowgate_plugin.caller import current_caller
from rowgate_plugin.settings import SettingsError

STATE_KEY = "ROWGATE_STATE_KEY"
MIN_STATE_KEY_BYTES = 32

logger = logging.getLogger(__name__)


def request_state(environ: Mapping[str, str] = os.environ, *, ttl: float = 600.0) -> RequestStateSecurity:
    """Under `ROWGATE_STATE_KEY`, shared by the replicas of a plugin; without it under a key of this process alone."""
    key: str | bytes = environ.get(STATE_KEY, "")
    if STATE_KEY not in environ:
        logger.info("%s is not set: a call that asks the user something must be finished by this process", STATE_KEY)
        key = secrets.token_bytes(MIN_STATE_KEY_BYTES)
    elif len(environ[STATE_KEY].encode()) < MIN_STATE_KEY_BYTES:
        raise SettingsError(f"{STATE_KEY} needs at least {MIN_STATE_KEY_BYTES} bytes")
    return RequestStateSecurity(keys=[key], ttl=ttl, bind_principal=principal)


def principal(_: ServerRequestContext[Any, Any]) -> str:
    """The identity that state is bound to. Without a caller it raises, and the SDK refuses the state."""
    caller = current_caller()
    return json.dumps([caller.issuer, caller.kind, caller.subject, caller.client_id])


def install(server: MCPServer[Any], security: RequestStateSecurity) -> None:
    """Replace the SDK's boundary, which knows neither our caller nor a key that outlives the process."""
    boundary = RequestStateBoundary(security, default_audience=server.name)
    for index, installed in enumerate(server.middleware):
        if isinstance(installed, RequestStateBoundary):
            server.middleware[index] = boundary
            return
    raise SettingsError("this version of the MCP SDK has no requestState boundary to replace")
