"""What a server asks of a verified caller before it reads the message: which client, how signed in, still signed in."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from rowgate.auth.liveness import Liveness
from rowgate.auth.principal import Principal
from rowgate.errors import ClientNotAllowed, InsufficientAuthentication

PER_CALL_INTERVAL: Final = 10.0
"""Seconds between two questions about an open stream where each call asks."""

_LEVELS: Final = {"aal1": 1, "aal2": 2, "aal3": 3}


@dataclass(frozen=True, slots=True)
class Admission:
    clients: Collection[str] | None = None
    """OAuth clients that may call; None for all. A caller without a client is not concerned: `require_client` is."""
    min_aal: str = "aal1"
    liveness: Liveness | None = None

    @property
    def idle(self) -> bool:
        return self.clients is None and self.min_aal == "aal1" and (self.liveness is None or self.interval is None)

    @property
    def interval(self) -> float | None:
        """Seconds after which an open stream asks again; None when nobody asks."""
        if self.liveness is None or self.liveness.max_age is None:
            return None
        return self.liveness.max_age or PER_CALL_INTERVAL

    async def require(self, principal: Principal) -> None:
        """Raises ClientNotAllowed, InsufficientAuthentication, SessionOver or IdentityUnavailable."""
        if self.clients is not None and principal.client_id is not None and principal.client_id not in self.clients:
            raise ClientNotAllowed(reason="client")
        if _LEVELS.get(principal.aal or "", 0) < _LEVELS[self.min_aal] and self.min_aal != "aal1":
            raise InsufficientAuthentication(self.min_aal)
        if self.liveness is not None and self.liveness.max_age is not None:
            await self.liveness.require(principal, self.liveness.max_age)

    async def again(self, principal: Principal) -> None:
        """For an open stream. Raises SessionOver or IdentityUnavailable."""
        if self.liveness is not None:
            await self.liveness.require(principal, 0.0)
