"""An open stream ends with the right to it: when the token ends, or the sign-in behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rowgate.auth.admission import Admission
from rowgate.auth.principal import Principal
from rowgate.errors import GatewayError, TokenExpired


class StreamWatch:
    """`limit` is the running time limit of the call: it is brought forward to interrupt whatever the stream waits for.

    A call without a stream is let finish: it may have changed something already, and its client would repeat it.
    """

    def __init__(
        self,
        principal: Principal,
        admission: Admission | None,
        limit: asyncio.Timeout,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._principal = principal
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._over: GatewayError | None = None
        self._expires_at = self._loop.time() + max(0.0, principal.accepted_until - clock())
        deadline = limit.when()
        self._by_token = deadline is None or self._expires_at < deadline
        if self._by_token:
            limit.reschedule(self._expires_at)
        interval = None if admission is None else admission.interval
        self._asking: asyncio.Task[None] | None = None
        if admission is not None and interval is not None:
            self._asking = asyncio.create_task(self._ask(admission, interval))

    def reason(self) -> GatewayError | None:
        """Why the stream was interrupted; None when it was not this watch."""
        if not self._limit.expired():
            return None
        return self._over or (TokenExpired(reason="expired") if self._by_token else None)

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, admission: Admission, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            try:
                await admission.again(self._principal)
            except GatewayError as error:
                self._over = error
                self._limit.reschedule(self._loop.time())
                return
