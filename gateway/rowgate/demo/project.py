"""A whole Supabase project on one loopback origin, as a hosted one looks from outside."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
from aiohttp import web

from rowgate.demo import application
from rowgate.demo.application import Person
from rowgate.demo.auth import AuthServer
from rowgate.demo.auth.answers import json_answer
from rowgate.demo.auth.realm import Settings, TokenHook
from rowgate.demo.edge import BANNER, ApiKeys, ProjectEdge
from rowgate.demo.listener import bind, origin, serve
from rowgate.demo.migrations import bootstrap, insert_user, migrate
from rowgate.demo.postgres import postgres
from rowgate.demo.postgrest import Postgrest, postgrest
from rowgate.demo.rest import PREFIX, RestProxy, rest_session

log = logging.getLogger("rowgate.demo")


@dataclass(frozen=True, slots=True)
class DemoUser:
    email: str
    user_id: str
    name: str


ALICE = DemoUser("alice@example.com", "a11ce000-0000-4000-8000-000000000001", "Alice")
BOB = DemoUser("bob@example.com", "b0b00000-0000-4000-8000-000000000002", "Bob")


@dataclass(frozen=True, slots=True)
class Project:
    url: str
    issuer: str
    publishable_key: str
    secret_key: str = field(repr=False)
    dsn: str
    """The database superuser's, for asyncpg; usable by this operating system user only."""
    password: str = field(repr=False)
    """Of every seeded user."""
    users: tuple[DemoUser, ...]
    auth: AuthServer
    _postgrest: Postgrest = field(repr=False)

    @property
    def banner(self) -> str:
        """For a terminal: it holds the seeded users' password."""
        who = " or ".join(user.email for user in self.users)
        return f"{self.url}: {BANNER}. Sign in as {who} with the password {self.password}"

    async def rotate_keys(self, *, keep: bool = True) -> None:
        """Sign with a new key, and return when PostgREST trusts it. PostgREST may still take a token that it has
        seen before, whatever became of its key."""
        self.auth.rotate_keys(keep=keep)
        self._postgrest.trust(self.auth.jwks())
        probe = self.auth.mint({"role": "anon", "exp": int(time.time()) + 60})
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {probe}"}) as session:
            while True:
                async with session.get(self._postgrest.url) as answer:
                    if answer.status != 401:
                        return
                await asyncio.sleep(0.02)


@asynccontextmanager
async def project(
    *,
    users: Sequence[DemoUser] = (ALICE, BOB),
    sql: Sequence[Path] = (),
    directory: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    password: str | None = None,
    schemas: Sequence[str] = ("public",),
    extra_scopes: Sequence[str] = (),
    token_hook: TokenHook | None = None,
    token_lifetime: int = 3600,
    clock: Callable[[], float] = time.time,
    postgrest_settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Project]:
    """Run it until the block ends: real PostgreSQL, real PostgREST, a stand-in for Supabase Auth.

    `sql` are migrations, run once each in the order given, when the seeded users exist. `directory` keeps the data;
    sign-ups, sessions and registered clients live in memory all the same. `extra_scopes` makes the stand-in issue
    application scopes, WHICH SUPABASE DOES NOT. Raises StartError.
    """
    listening = bind(host, port)
    url = origin(listening)
    issuer = f"{url}/auth/v1"
    secret = password or secrets.token_urlsafe(9)
    with listening:
        async with postgres(directory) as database:
            authenticator = await bootstrap(database)
            settings = Settings(
                issuer=issuer,
                site_url=url,
                token_lifetime=token_lifetime,
                extra_scopes=tuple(extra_scopes),
                token_hook=token_hook,
                on_sign_up=partial(insert_user, database),
            )
            auth = AuthServer(settings, clock=clock)
            for user in users:
                await auth.add_user(user.email, secret, user_id=user.user_id, data={"name": user.name})
            await migrate(database, sql)
            uri = database.uri("authenticator", authenticator)
            async with postgrest(uri, auth.jwks(), schemas, settings=postgrest_settings) as rest:
                keys = ApiKeys(f"sb_publishable_{secrets.token_urlsafe(22)}", f"sb_secret_{secrets.token_urlsafe(22)}")
                running = Project(
                    url, issuer, keys.publishable, keys.secret, database.dsn, secret, tuple(users), auth, rest
                )
                async with rest_session() as session:
                    app = _application(running, keys, RestProxy(rest.url, session), clock)
                    async with serve(app, listening):
                        log.info("%s: %s", url, BANNER)
                        yield running


def _application(running: Project, keys: ApiKeys, rest: RestProxy, clock: Callable[[], float]) -> web.Application:
    edge = ProjectEdge(running.url, keys, running.auth, clock=clock)
    app = web.Application(middlewares=[edge.middleware], client_max_size=4 * 1024 * 1024)

    async def metadata(request: web.Request) -> web.Response:
        return json_answer(running.auth.metadata(), headers={"cache-control": "public, max-age=600"})

    # The hosted edge strips the prefix, so that any suffix answers.
    app.router.add_get("/.well-known/oauth-authorization-server{suffix:(/.*)?}", metadata)
    app.router.add_route("*", PREFIX + "/{path:.*}", rest.handle)
    people = [Person(user.email, running.password, user.name) for user in running.users]
    app.add_routes(application.routes(running.publishable_key, people))
    app.add_subapp("/auth/v1", running.auth.application())
    return app
