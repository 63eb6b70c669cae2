"""What every refusal has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mcp_types import jsonrpc as rpc


class GatewayError(Exception):
    """A refusal with a stable code.

    `detail` goes to the client and is written by the gateway only; `reason` is one word of a bounded set for
    logs and metrics; `data` becomes the JSON-RPC `error.data`.
    """

    code: ClassVar[str] = "RG100"
    status: ClassVar[int] = 500
    rpc_code: ClassVar[int] = rpc.INTERNAL_ERROR
    sentence: ClassVar[str] = "The gateway failed to answer."
    hint: ClassVar[str] = "A defect in the gateway: the log has a traceback under this request id."

    def __init__(
        self,
        detail: str = "",
        *,
        reason: str = "",
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or self.sentence)
        self.detail = detail
        self.reason = reason
        self.data = dict(data) if data else {}
        self.headers = dict(headers) if headers else {}

    @property
    def message(self) -> str:
        return self.detail or self.sentence

    @classmethod
    def urn(cls) -> str:
        """The `type` of its problem document (RFC 9457 §3.1.1)."""
        return f"urn:rowgate:error:{cls.code}"
