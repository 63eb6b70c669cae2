"""Builds the gateway from its configuration: rooms, routes and the two listeners. One page.

public listener    door -> pipeline                      what clients reach
internal listener  /healthz /readyz /metrics /context    what operators and plugins reach
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import ClientSession, DummyCookieJar, web

from rowgate.auth.admission import Admission
from rowgate.auth.authenticators import Authenticators, authenticators
from rowgate.auth.metadata import documents, resource
from rowgate.config.models import Config
from rowgate.config.values import is_loopback
from rowgate.door import Door, Routes
from rowgate.edge.listener import Listener
from rowgate.edge.origin import OriginPolicy
from rowgate.endpoint import Endpoint
from rowgate.errors import StartError
from rowgate.limits import Limits
from rowgate.observe.events import Emit, GatewayChanged, SecurityNotice
from rowgate.observe.health import Health, internal_app
from rowgate.observe.metrics import Metrics
from rowgate.observe.notices import scope_notices, security_notices
from rowgate.pipeline import Pipeline
from rowgate.policy import assembly
from rowgate.policy.assembly import Asked, Rules, rules_of
from rowgate.policy.catalogs import Catalogs
from rowgate.policy.offers import DISCOVER
from rowgate.protocol.answers import ServerIdentity
from rowgate.relay import Relay
from rowgate.supabase.callers import admissions, sessions_of, strategy_of
from rowgate.supabase.project import supabase_api
from rowgate.upstream.context import ContextIssuer, ContextKeys, ephemeral_key, published_key, signing_key
from rowgate.upstream.environment import PluginEnvironment
from rowgate.upstream.forward import Forwarder
from rowgate.upstream.leg import Leg
from rowgate.upstream.pooled import leg_to
from rowgate.upstream.supervisor import supervisor


@dataclass(frozen=True, slots=True)
class Listening:
    """A gateway that serves. Ports as bound: a configured port 0 is a free one."""

    public: tuple[str, int]
    internal: tuple[str, int]
    drain: Callable[[], None]
    """Report not ready, and let no client begin another request on its connection; requests are still answered."""


@asynccontextmanager
async def gateway(
    config: Config, *, emit: Emit, metrics: Metrics, health: Health, clock: Callable[[], float] = time.time
) -> AsyncIterator[Listening]:
    """Serve until the context is left; leaving it drains within `gateway.shutdown.timeout`.

    Both listeners are open before the first key or list is fetched, so that `/readyz` can say what is missing."""
    async with AsyncExitStack() as stack:
        keys = context_keys(config)
        session = await stack.enter_async_context(ClientSession(cookie_jar=DummyCookieJar(), trust_env=False))
        api = supabase_api(config, session)
        auth = authenticators(
            {name: strategy_of(config, server) for name, server in config.servers.items()},
            session,
            ask=None if api is None else api.rpc_as_gateway,
            clock=clock,
            emit=emit,
        )
        stack.push_async_callback(auth.close)
        sessions = sessions_of(config, api, clock=clock, emit=emit)
        if sessions is not None:
            stack.push_async_callback(sessions.close)
        admitted = admissions(config, sessions, emit)
        environment = PluginEnvironment(config, keys)
        supervised = await stack.enter_async_context(supervisor(config.plugins, environment, emit=emit))
        legs: dict[str, Leg] = {}
        for name, plugin in config.plugins.items():
            legs[name] = leg_to(plugin, supervised.socket(name))
            stack.push_async_callback(legs[name].close)
        context = ContextIssuer(
            keys, issuer=config.gateway.public_url, lifetime=config.gateway.context.lifetime, clock=clock
        )
        forwarder = Forwarder(config.plugins, legs=legs, context=context, emit=emit)
        rules = rules_of(config, Asked(session, api, context, sessions, emit))
        stack.push_async_callback(assembly.close, rules)
        catalogs = Catalogs(
            servers=config.servers,
            plugins=config.plugins,
            scopes={name: it.scopes for name, it in rules.items()},
            ask=forwarder.ask,
            hooks=assembly.hooks(rules),
            emit=emit,
        )
        stack.push_async_callback(catalogs.close)
        limits = Limits.of(config, emit)
        stack.push_async_callback(limits.close)
        front = door(config, auth, admitted, rules, limits, catalogs, forwarder, emit)
        public = Listener(front.handle, emit=emit, patience=config.gateway.request.timeout)
        internal = internal_app(metrics, health, lambda: keys.jwks)
        public_at, internal_at = await listen(stack, config, public, internal)
        for notice in security_notices(config):
            emit(notice)
        emit(GatewayChanged("starting", f"listening on {_text(public_at)}, internally on {_text(internal_at)}"))
        supervised.start(lambda plugin: forwarder.ask(plugin, DISCOVER, {}), catalogs.reload)
        await asyncio.gather(auth.fetch_keys(), catalogs.load())
        for background in (auth.run(), catalogs.run(), tell(scope_notices(config, session), emit)):
            stack.callback(asyncio.create_task(background).cancel)
        emit(GatewayChanged("serving", config.gateway.public_url))

        def drain() -> None:
            front.draining = True
            emit(GatewayChanged("draining"))

        yield Listening(public_at, internal_at, drain)


def door(
    config: Config,
    auth: Authenticators,
    admitted: Mapping[str, Admission | None],
    rules: Mapping[str, Rules],
    limits: Limits,
    catalogs: Catalogs,
    forwarder: Forwarder,
    emit: Emit,
) -> Door:
    endpoints = {
        server.path: Endpoint(
            name=name,
            config=server,
            identity=ServerIdentity(name, server.title, server.instructions),
            resource=resource(config, server),
            authenticator=auth.by_server[name],
            admission=admitted[name],
            scopes=rules[name].scopes,
            grants=rules[name].grants,
            authorization=rules[name].authorization,
            budgets=limits.budgets[name],
        )
        for name, server in config.servers.items()
    }
    return Door(
        routes=Routes(endpoints, documents(config)),
        pipeline=Pipeline(
            limits=config.gateway.request,
            catalogs=catalogs,
            occupancy=limits.occupancy,
            failures=limits.failures,
            relay=Relay(forwarder, config.plugins, deadline=config.gateway.request.timeout, emit=emit),
        ),
        origin=OriginPolicy(
            config.gateway.public_url,
            config.gateway.allowed_hosts,
            config.gateway.allowed_origins,
            listen_is_loopback=is_loopback(config.gateway.listen.host),
        ),
        trusted_proxies=config.gateway.trusted_proxies,
        public_url=config.gateway.public_url,
        emit=emit,
    )


async def tell(notices: AsyncIterator[SecurityNotice], emit: Emit) -> None:
    async for notice in notices:
        emit(notice)


def context_keys(config: Config) -> ContextKeys:
    settings = config.gateway.context
    if settings.signing_key is None:
        return ContextKeys(ephemeral_key())
    return ContextKeys(
        signing_key(settings.signing_key.reveal()), [published_key(key.reveal()) for key in settings.previous_keys]
    )


def _text(address: tuple[str, int]) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


async def listen(
    stack: AsyncExitStack, config: Config, public: Listener, internal: web.Application
) -> tuple[tuple[str, int], tuple[str, int]]:
    timeout = config.gateway.shutdown.timeout
    public_runner = web.ServerRunner(public, shutdown_timeout=timeout)
    internal_runner = web.AppRunner(internal, access_log=None, shutdown_timeout=1.0)
    bound: list[tuple[str, int]] = []
    # The internal listener closes last: operators watch the drain through it.
    for runner, address in (
        (internal_runner, config.gateway.internal_listen),
        (public_runner, config.gateway.listen),
    ):
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, address.host, address.port, backlog=1024).start()
        except OSError as error:
            raise StartError(f"Cannot listen on {address.host}:{address.port}: {error.strerror}.") from error
        host, port = runner.addresses[0][:2]
        bound.append((host, port))
    return bound[1], bound[0]
