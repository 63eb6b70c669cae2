"""The door of the public listener: every request comes in here, every answer and every record leaves here.

The order matters: whoever rebinds DNS or calls from a foreign page learns nothing (host, origin), a preflight
carries no token and is answered before authentication, discovery documents are public.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from rowgate.auth import step_up
from rowgate.auth.challenge import challenge_for
from rowgate.auth.metadata import HEADERS, PREFLIGHT_HEADERS, Document
from rowgate.edge.forwarded import IPNetwork, client_address, request_id
from rowgate.edge.origin import OriginPolicy
from rowgate.endpoint import Endpoint
from rowgate.errors import (
    AuthenticationError,
    GatewayError,
    InsufficientScope,
    MalformedRequest,
    MethodNotAllowed,
    ModelRefusal,
    NotFound,
)
from rowgate.observe.events import Defect, Emit, StreamChanged
from rowgate.observe.record import Record
from rowgate.pages import connect_page
from rowgate.pipeline import Pipeline
from rowgate.protocol.render import PROBLEM, error_message, error_status, problem, refused_call
from rowgate.protocol.stream import Answer
from rowgate.randomness import Randomness

SERVER = "rowgate"
"""Instead of aiohttp's, which names the versions of itself and of Python."""


@dataclass(frozen=True, slots=True)
class Routes:
    """Exact paths, compared as they came: nothing is decoded, folded or normalised before it is looked up."""

    endpoints: Mapping[str, Endpoint]
    documents: Mapping[str, Document]

    def endpoint(self, path: str) -> Endpoint | None:
        """Both spellings are served, because clients drop the token when they follow a redirect."""
        return self.endpoints.get(path) or self.endpoints.get(path.removesuffix("/"))


class Door:
    def __init__(
        self,
        *,
        routes: Routes,
        pipeline: Pipeline,
        origin: OriginPolicy,
        trusted_proxies: Sequence[IPNetwork],
        public_url: str,
        emit: Emit,
        monotonic: Callable[[], float] = time.perf_counter,
        mint: Callable[[], str] | None = None,
    ) -> None:
        """`mint` makes the id of a request that brings none."""
        self._routes = routes
        self._pipeline = pipeline
        self._origin = origin
        self._trusted = trusted_proxies
        self._public_url = public_url
        self._emit = emit
        self._monotonic = monotonic
        self._mint = mint or Randomness()
        self.draining = False
        """Whether answers ask their clients to open no further request on the same connection."""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The one outer wrapper. Its `finally` awaits nothing, so that a cancelled request is recorded too."""
        record = self._record(request)
        answer = Answer(request, record.headers)
        try:
            response = await self._dispatch(request, record, answer)
            record.status = response.status
        except GatewayError as error:
            response = await self._refuse(error, request, record, answer)
        except (asyncio.CancelledError, ConnectionError):
            # The client left. On MCP's stateless transport that is how a call is cancelled.
            record.outcome = "cancelled"
            raise
        except Exception as error:
            self._emit(Defect("request", error, record.request_id))
            response = await self._refuse(GatewayError(), request, record, answer)
        finally:
            if record.streamed and record.server:
                self._emit(StreamChanged(record.server, -1))
            self._emit(record.finished(self._monotonic()))
        return response

    def _record(self, request: web.BaseRequest) -> Record:
        identifier = request_id(request.remote, request.headers, self._trusted, self._mint)
        headers = {"Server": SERVER, "X-Request-Id": identifier}
        if self.draining:
            headers["Connection"] = "close"
        return Record(
            request_id=identifier,
            http_method=request.method,
            address=client_address(request.remote, request.headers, self._trusted),
            started=self._monotonic(),
            headers=headers,
        )

    async def _dispatch(self, request: web.BaseRequest, record: Record, answer: Answer) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0]
        if not path.startswith("/"):
            # The absolute form names a host of its own beside the Host header (RFC 9112 §3.2.2).
            raise MalformedRequest
        self._origin.check_host(request.headers)
        if document := self._routes.documents.get(path):
            record.route = "metadata"
            return await self._document(request, document, record, answer)
        endpoint = self._routes.endpoint(path)
        if endpoint is None:
            raise NotFound
        record.route, record.server = "mcp", endpoint.name
        record.headers.update(self._origin.response_headers(request.headers.get("Origin")))
        self._origin.check_origin(request.headers)
        if request.method == "OPTIONS":
            return await answer.send(status=204, headers=self._origin.preflight(request.headers))
        if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            return await self._page(endpoint, answer)
        return await self._pipeline.serve(request, endpoint, record, answer)

    async def _document(
        self, request: web.BaseRequest, document: Document, record: Record, answer: Answer
    ) -> web.StreamResponse:
        """RFC 9728 §3.1: public, and readable from any page, because a browser client starts here."""
        record.server = document.server
        if request.method == "OPTIONS":
            return await answer.send(status=204, headers=PREFLIGHT_HEADERS)
        if request.method not in ("GET", "HEAD"):
            raise MethodNotAllowed("This document is read with GET.", headers={"Allow": "GET, HEAD, OPTIONS"})
        return await answer.send(document.body, headers=HEADERS)

    async def _page(self, endpoint: Endpoint, answer: Answer) -> web.StreamResponse:
        page, headers = connect_page(endpoint.identity, self._public_url + endpoint.config.path)
        return await answer.send(page, content_type="text/html; charset=utf-8", headers=headers)

    async def _refuse(
        self, error: GatewayError, request: web.BaseRequest, record: Record, answer: Answer
    ) -> web.StreamResponse:
        record.refused(error)
        record.status = 200 if answer.streaming else error_status(error, record.era)
        headers = dict(error.headers)
        endpoint = self._endpoint_of(record)
        if endpoint and isinstance(error, AuthenticationError | InsufficientScope):
            headers |= challenge_for(error, endpoint.resource)
        if endpoint and (told := told_in_result(error, request, record, endpoint, headers)):
            record.status = 200
            return await answer.finish(told)
        if record.parsed:
            message = error_message(error, record.request_id, record.rpc_id, record.era)
            return await answer.finish(message, record.status, headers)
        return await answer.send(
            problem(error, record.request_id), status=record.status, content_type=PROBLEM, headers=headers
        )

    def _endpoint_of(self, record: Record) -> Endpoint | None:
        return next((e for e in self._routes.endpoints.values() if e.name == record.server), None)


def told_in_result(
    error: GatewayError, request: web.BaseRequest, record: Record, endpoint: Endpoint, headers: Mapping[str, str]
) -> dict[str, Any] | None:
    """The refusal as a tool's result, or None where it is said otherwise."""
    call = record.call
    if call is None or call.kind != "call":
        return None
    meta: dict[str, Any] = {}
    if isinstance(error, InsufficientScope) and step_up.in_result(
        endpoint.config.auth.challenge, request.headers, call
    ):
        meta[step_up.META_KEY] = [headers["WWW-Authenticate"]]
    elif not isinstance(error, ModelRefusal):
        return None
    return refused_call(call, error, record.request_id, endpoint.identity, record.definition, **meta)
