"""THE request, top to bottom. Who reads one file reads this.

    door.py      request id, host and origin, CORS, which server; one wrapper that renders errors and records
    pipeline.py  who calls, what, may they                                        <- you are here
    relay.py     to the plugin and back, as a stream or in one piece

Everything that can be refused is refused before the first byte of a stream. What policy judged is the value that
is forwarded: the bytes of the client go no further than `read_call`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from aiohttp import web

from rowgate.auth.principal import Principal
from rowgate.config.models import Request
from rowgate.edge.body import read_body, require_media
from rowgate.endpoint import Endpoint
from rowgate.errors import MethodNotAllowed, ParseError
from rowgate.limits.failures import FailedAuthentications
from rowgate.limits.occupancy import Occupancy, Place
from rowgate.observe.record import Record
from rowgate.policy.authorization import NOTHING
from rowgate.policy.catalog import Target
from rowgate.policy.catalogs import Catalogs
from rowgate.policy.rules import Requirement, decide, require, require_token
from rowgate.protocol import ijson
from rowgate.protocol.answers import own_result
from rowgate.protocol.call import Call
from rowgate.protocol.message import era_of, read_call, readable_id
from rowgate.protocol.render import result_message
from rowgate.protocol.stream import Answer
from rowgate.relay import Relay

EVERY_CALL = Requirement()
"""What a server asks of everybody, before any capability asks for more: its own `scopes.required`."""

NO_PLACE: Final = nullcontext()
"""What a call has to hold where nothing limits how many there are at once."""


class Pipeline:
    def __init__(
        self,
        *,
        limits: Request,
        catalogs: Catalogs,
        relay: Relay,
        occupancy: Occupancy | None = None,
        failures: FailedAuthentications | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`occupancy` and `failures` are None where nothing limits them."""
        self._limits = limits
        self._catalogs = catalogs
        self._relay = relay
        self._occupancy = occupancy
        self._failures = failures
        self._monotonic = monotonic

    async def serve(
        self, request: web.BaseRequest, endpoint: Endpoint, record: Record, answer: Answer
    ) -> web.StreamResponse:
        caller = await self._authenticated(request, endpoint, record)  # 401 with a challenge, 429, 503
        record.principal = caller
        if endpoint.admission is not None:
            await endpoint.admission.require(caller)  # 401 with a challenge, 403, 503
        if endpoint.grants is not None:
            record.principal = caller = await endpoint.grants.applied(caller)  # 503
        require_token(decide(caller, EVERY_CALL, endpoint.scopes))  # 403 with a challenge
        require_post(request)  # 405
        require_media(request)  # 415, 406
        call = await self._read(request, record)  # 413, 408, 400, 404
        kind = call.kind
        if kind == "notification":
            return await answer.send(status=202)
        if endpoint.budgets is not None:
            await endpoint.budgets.admit(call, caller, record.address)  # 429, or a tool error
        catalog = await self._catalogs.of(endpoint.name, caller)
        if kind in ("own", "list"):
            ask = endpoint.authorization if kind == "list" and catalog.checks else None
            permitted = NOTHING if ask is None else await ask.permitted(caller, catalog)
            ttl_ms = catalog.ttl_ms(self._monotonic())
            result = own_result(call, caller, catalog, endpoint.identity, ttl_ms, permitted)
            return await answer.finish(result_message(call, result, endpoint.identity))
        target = catalog.resolve(call, caller)  # unknown and hidden look the same
        record.capability, record.plugin = target.capability.name, target.plugin
        record.definition = target.capability.definition
        require(target.decision, endpoint.scopes.grant_url)  # 403 with a challenge, or a tool error
        if endpoint.authorization is not None:
            await endpoint.authorization.authorize(call, caller, target)  # a tool error, 401 with a challenge
        if endpoint.budgets is not None:
            await endpoint.budgets.charge(call, caller, target)  # a tool error, 429
        with self._place(endpoint, caller, target) as place:  # a tool error, 429, 503
            return await self._relay.send(call, caller, target, endpoint, record, answer, place)

    def _authenticated(self, request: web.BaseRequest, endpoint: Endpoint, record: Record) -> Awaitable[Principal]:
        asked = endpoint.authenticator.authenticate(request.headers)
        return asked if self._failures is None else self._failures.counted(asked, record.address)

    def _place(self, endpoint: Endpoint, caller: Principal, target: Target) -> AbstractContextManager[Place | None]:
        if self._occupancy is None:
            return NO_PLACE
        return self._occupancy.place(endpoint.name, endpoint.config.limits, caller, target.plugin) or NO_PLACE

    async def _read(self, request: web.BaseRequest, record: Record) -> Call:
        raw = await read_body(request, max_bytes=self._limits.max_bytes, timeout=self._limits.timeout)
        record.parsed = True
        try:
            body = ijson.loads(raw)
        except ijson.NotIJson as error:
            raise ParseError(str(error)) from None
        record.rpc_id = readable_id(body)
        record.era = era = era_of(body, request.headers)
        record.call = call = read_call(body, request.headers, era)
        record.trace_id = call.trace_id
        return call


def require_post(request: web.BaseRequest) -> None:
    if request.method != "POST":
        raise MethodNotAllowed(headers={"Allow": "POST"})
