from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace

import aiohttp
import pytest

from databases import Background, SupabaseProject
from flow.client import Client
from rls.chain import Chain, chain
from rls.person import ERAS, Person, Wire
from rowgate.demo.project import ALICE, BOB


@pytest.fixture(scope="session")
def chained(team_notes_project: SupabaseProject) -> Iterator[Chain]:
    background = Background(chain(team_notes_project.hosted))
    yield background.start()
    background.stop()


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    # Fewer connections than requests at once, so that one connection carries many callers.
    connector = aiohttp.TCPConnector(limit=40)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Client(session, "")


@pytest.fixture
async def alice(team_notes_project: SupabaseProject) -> Person:
    place = ("ac3e0000-0000-4000-8000-000000000001", "ac3e0000-0000-4000-8000-0000000000a1")
    return await signed_in(team_notes_project, Person(ALICE.email, "Acme", *place, "Rocket skates roadmap"))


@pytest.fixture
async def bob(team_notes_project: SupabaseProject) -> Person:
    place = ("910be000-0000-4000-8000-000000000002", "910be000-0000-4000-8000-0000000000b1")
    return await signed_in(team_notes_project, Person(BOB.email, "Globex", *place, "Weather machine roadmap"))


async def signed_in(project: SupabaseProject, person: Person) -> Person:
    token = await project.access_token(person.email, client_id=str(uuid.uuid4()), scope="email")
    return replace(person, token=token)


@pytest.fixture
def wire(chained: Chain, client: Client) -> Callable[..., Wire]:
    def to(person: Person, era: str = ERAS[0], url: str = chained.first) -> Wire:
        return Wire(client, url, era, person.token)

    return to


@pytest.fixture
async def stranger(team_notes_project: SupabaseProject) -> Person:
    """A user who belongs to no organisation."""
    email = f"{uuid.uuid4().hex}@example.com"
    await team_notes_project.add_user(email)
    return await signed_in(team_notes_project, Person(email, "none", "none", str(uuid.uuid4()), "none"))
