"""Alice and Bob: what is theirs, and what they do in either era."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from flow.client import Client, Reply

ERAS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")


@dataclass(frozen=True)
class Person:
    email: str
    organisation: str
    organisation_id: str
    note: str
    """Id of the roadmap."""
    title: str
    """Of the same note."""
    token: str = field(default="", repr=False)

    def owns(self, reply: Reply) -> bool:
        """Whether the answer is this person's: it names what the question was about."""
        return reply.status == 200 and (self.title in reply.body.decode() or self.organisation in reply.body.decode())


@dataclass(frozen=True)
class Wire:
    """One person's requests to one endpoint in one era."""

    client: Client
    url: str
    era: str
    token: str = field(repr=False)

    async def send(self, method: str, params: dict[str, Any], id: Any = 1) -> Reply:
        client = Client(self.client.session, self.url)
        if self.era == ERAS[0]:
            return await client.modern(method, params, token=self.token, id=id)
        return await client.legacy(method, params, token=self.token, version=self.era, id=id)

    async def call(self, tool: str, /, **arguments: Any) -> Reply:
        return await self.send("tools/call", {"name": tool, "arguments": arguments})


Operation = Callable[[Wire, Person], Awaitable[Reply]]


async def search(wire: Wire, person: Person) -> Reply:
    return await wire.call("search_notes", query="roadmap")


async def get(wire: Wire, person: Person) -> Reply:
    return await wire.call("get_note", id=person.note)


async def read(wire: Wire, person: Person) -> Reply:
    return await wire.send("resources/read", {"uri": f"notes://{person.note}"})


async def organisations(wire: Wire, person: Person) -> Reply:
    return await wire.send("resources/read", {"uri": "notes://organisations"})


async def prompt(wire: Wire, person: Person) -> Reply:
    return await wire.send("prompts/get", {"name": "summarise_notes", "arguments": {"topic": "roadmap"}})


async def complete(wire: Wire, person: Person) -> Reply:
    ref = {"type": "ref/prompt", "name": "summarise_notes"}
    return await wire.send("completion/complete", {"ref": ref, "argument": {"name": "topic", "value": "road"}})


OPERATIONS: tuple[Operation, ...] = (search, get, read, organisations, prompt, complete)
