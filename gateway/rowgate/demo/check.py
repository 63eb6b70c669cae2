"""`rowgate demo --check`: the official client signs in as Alice and as Bob, and every promise is tried."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from rowgate.demo.project import ALICE, BOB, DemoUser
from rowgate.demo.stack import Demo

CALLBACK = "http://127.0.0.1:33418/callback"
"""Where the client would listen. The check reads the redirect instead of following it."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Promises:
    say: Say
    broken: int = 0

    def hold(self, promise: str, kept: bool) -> None:
        self.say(f"  {'ok    ' if kept else 'BROKEN'}  {promise}")
        self.broken += not kept


@dataclass(slots=True)
class Wallet:
    """The client's token storage."""

    tokens: list[OAuthToken] = field(default_factory=list)
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens[-1] if self.tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens.append(tokens)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """What a user does in the browser: sign in to the application, read what is asked, and approve."""

    def __init__(self, demo: Demo, user: DemoUser) -> None:
        self._demo = demo
        self._user = user
        self.asked: dict[str, list[str]] = {}
        self._answer: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        self.asked = parse_qs(urlsplit(url).query)
        issuer, key = self._demo.project.issuer, self._demo.project.publishable_key
        async with httpx2.AsyncClient(headers={"apikey": key}, trust_env=False) as browser:
            consent_page = (await browser.get(url)).headers["location"]
            request = parse_qs(urlsplit(consent_page).query)["authorization_id"][0]
            credentials = {"email": self._user.email, "password": self._demo.project.password}
            session = (await browser.post(f"{issuer}/token?grant_type=password", json=credentials)).json()
            browser.headers["Authorization"] = f"Bearer {session['access_token']}"
            await browser.get(f"{issuer}/oauth/authorizations/{request}")
            approved = await browser.post(
                f"{issuer}/oauth/authorizations/{request}/consent", json={"action": "approve"}
            )
            self._answer = parse_qs(urlsplit(approved.json()["redirect_url"]).query)

    async def returned(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self._answer["code"][0], state=self._answer["state"][0])


@dataclass(slots=True)
class Session:
    user: DemoUser
    person: Person
    wallet: Wallet
    provider: OAuthClientProvider
    client: Client

    async def notes(self) -> list[dict[str, Any]]:
        result = await self.client.call_tool("search_notes", {"query": ""})
        return list((result.structured_content or {}).get("notes", ()))

    async def read(self, note_id: str) -> str | None:
        """The title, or None when the note does not exist for this user."""
        result = await self.client.call_tool("get_note", {"id": note_id})
        return None if result.is_error else str((result.structured_content or {})["title"])


async def check(demo: Demo, say: Say) -> bool:
    """Whether every promise was kept."""
    promises = Promises(say)
    await without_a_token(demo, promises)
    async with signed_in(demo, ALICE, promises) as alice, signed_in(demo, BOB, promises) as bob:
        hers, his = await alice.notes(), await bob.notes()
        for session, rows in ((alice, hers), (bob, his)):
            show(session.user, rows, say)
        say("Row Level Security decides:")
        promises.hold("Alice and Bob each see notes", bool(hers) and bool(his))
        promises.hold("nobody sees a note of the other's organisation", apart(hers, his, "organisation"))
        promises.hold("no note is seen by both", apart(hers, his, "id"))
        if hers and his:
            promises.hold("Alice reads her own note by its id", await alice.read(hers[0]["id"]) is not None)
            promises.hold("the same id does not exist for Bob", await bob.read(hers[0]["id"]) is None)
            promises.hold("nor does Bob's note for Alice", await alice.read(his[0]["id"]) is None)
        await a_note_comes_and_goes(alice, bob, promises)
        await refreshed(alice, promises)
    await metrics_were_kept(demo, promises)
    say(f"{promises.broken} broken" if promises.broken else "every promise was kept")
    return promises.broken == 0


async def without_a_token(demo: Demo, promises: Promises) -> None:
    promises.say("Without a token:")
    async with httpx2.AsyncClient(trust_env=False) as http:
        refused = await http.post(demo.url, json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        challenge = refused.headers.get("www-authenticate", "")
        promises.hold("the endpoint answers 401 with a challenge", refused.status_code == 401 and "Bearer" in challenge)
        pointer = re.search(r'resource_metadata="([^"]+)"', challenge)
        document = await http.get(pointer[1] if pointer else demo.url)
        promises.hold("the challenge points at a document that is there", document.status_code == 200)
        resource = document.json().get("resource") if document.status_code == 200 else None
        promises.hold(f"its resource is {demo.url}, byte for byte", resource == demo.url)


@asynccontextmanager
async def signed_in(demo: Demo, user: DemoUser, promises: Promises) -> AsyncIterator[Session]:
    person, wallet = Person(demo, user), Wallet()
    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "rowgate demo check", "redirect_uris": [CALLBACK], "token_endpoint_auth_method": "none"}
    )
    provider = OAuthClientProvider(demo.url, metadata, wallet, person.open, person.returned)
    async with (
        httpx2.AsyncClient(auth=provider, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(demo.url, http_client=http)) as client,
    ):
        promises.say(f"{user.name} signs in with the official client:")
        promises.hold("it discovered the authorization server and registered", wallet.client is not None)
        promises.hold("it used PKCE with S256", person.asked.get("code_challenge_method") == ["S256"])
        promises.hold("it asked for this resource", person.asked.get("resource") == [demo.url])
        promises.hold(
            "it was not led to ask for openid", "openid" not in " ".join(person.asked.get("scope", ())).split()
        )
        promises.hold("it got a token", len(wallet.tokens) == 1)
        tools = {tool.name for tool in (await client.list_tools()).tools}
        promises.hold("it sees the four tools", tools == {"search_notes", "get_note", "create_note", "delete_note"})
        yield Session(user, person, wallet, provider, client)


def show(user: DemoUser, rows: list[dict[str, Any]], say: Say) -> None:
    say(f"{user.name} sees {len(rows)} notes:")
    for row in rows:
        say(f"    {row['organisation']:<10}  {row['title']}")


def apart(hers: list[dict[str, Any]], his: list[dict[str, Any]], member: str) -> bool:
    return {row[member] for row in hers}.isdisjoint(row[member] for row in his)


async def a_note_comes_and_goes(alice: Session, bob: Session, promises: Promises) -> None:
    written = await alice.client.call_tool("create_note", {"title": "Written by the check", "body": "Hello."})
    note = (written.structured_content or {}).get("id", "")
    promises.hold("Alice writes a note", not written.is_error)
    promises.hold("Bob does not see it", note not in {row["id"] for row in await bob.notes()})
    refused = await bob.client.call_tool("delete_note", {"id": note, "confirm": True})
    promises.hold("Bob cannot delete it", refused.is_error is True and await alice.read(note) is not None)
    deleted = await alice.client.call_tool("delete_note", {"id": note, "confirm": True})
    promises.hold("Alice can", not deleted.is_error and await alice.read(note) is None)


async def refreshed(session: Session, promises: Promises) -> None:
    """As if the hour of the access token had passed for the client."""
    session.provider.context.token_expiry_time = 1.0
    rows = await session.notes()
    tokens = session.wallet.tokens
    promises.hold("an expired token is refreshed without a new sign-in", len(tokens) == 2 and bool(rows))
    promises.hold("the refresh token was rotated", tokens[0].refresh_token != tokens[-1].refresh_token)


async def metrics_were_kept(demo: Demo, promises: Promises) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        ready = await http.get(f"{demo.internal_url}/readyz")
        metrics = (await http.get(f"{demo.internal_url}/metrics")).text
    promises.say("The operator:")
    promises.hold("the gateway reports ready", ready.status_code == 200)
    counted = re.search(r'rowgate_mcp_requests_total\{[^}]*capability="search_notes"[^}]*outcome="ok"[^}]*\} ', metrics)
    promises.hold("the calls were counted by tool and outcome", counted is not None)
    promises.hold("no address of a person is in the metrics", "@example.com" not in metrics)
