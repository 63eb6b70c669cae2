"""What a Python plugin imports: the caller by type, Supabase as that caller, and `serve`.

Names are loaded at first use, so that the gateway can import `rowgate_plugin.contract` without the MCP SDK.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rowgate_plugin.caller import Caller, CurrentCaller, User, current_caller, with_caller
    from rowgate_plugin.contract import Actor
    from rowgate_plugin.serving import app, serve
    from rowgate_plugin.state import request_state
    from rowgate_plugin.supabase import Supabase

__all__ = [
    "Actor",
    "Caller",
    "CurrentCaller",
    "Supabase",
    "User",
    "app",
    "current_caller",
    "request_state",
    "serve",
    "with_caller",
]

_HOMES = {
    "Actor": "contract",
    "Caller": "caller",
    "CurrentCaller": "caller",
    "Supabase": "supabase",
    "User": "caller",
    "app": "serving",
    "current_caller": "caller",
    "request_state": "state",
    "serve": "serving",
    "with_caller": "caller",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
