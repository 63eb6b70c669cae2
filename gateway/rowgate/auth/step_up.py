"""How a client is asked for more scopes: with a 403, or within a tool's result where it reads nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from mcp_types import CLIENT_INFO_META_KEY

if TYPE_CHECKING:
    from rowgate.protocol.call import Call

Mode = Literal["http", "tool-result", "auto"]
META_KEY: Final = "mcp/www_authenticate"
"""The member of a result's `_meta` that holds challenges."""
READ_ONLY_RESULTS: Final = ("openai-mcp",)
"""How clients name themselves, in the User-Agent or in clientInfo, that act on a challenge in a tool result only."""


def in_result(mode: Mode, headers: Mapping[str, str], call: Call) -> bool:
    """Only for `tools/call`. A name that a client invents gains nothing: both forms refuse, and say the same."""
    if call.method != "tools/call" or mode == "http":
        return False
    return mode == "tool-result" or any(
        name.lower().startswith(READ_ONLY_RESULTS) for name in (headers.get("User-Agent", ""), _client_name(call))
    )


def _client_name(call: Call) -> str:
    meta = call.params.get("_meta")
    info: Any = meta.get(CLIENT_INFO_META_KEY) if isinstance(meta, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""
