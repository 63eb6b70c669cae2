"""Two gateway processes that share a key and nothing else are one gateway to a client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from rls.chain import Chain
from rls.person import ERAS, OPERATIONS, Person, Wire, get

To = Callable[..., Wire]


async def test_a_client_that_began_at_one_gateway_goes_on_at_the_other(chained: Chain, wire: To, alice: Person) -> None:
    for here, there in (chained.replicas, chained.replicas[::-1]):
        first, second = wire(alice, ERAS[1], here), wire(alice, ERAS[1], there)
        hello = {"protocolVersion": ERAS[1], "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        begun = await first.send("initialize", hello)
        assert begun.result["protocolVersion"] == ERAS[1]
        assert "Mcp-Session-Id" not in begun.headers
        listed, same = [(await one.send("tools/list", {})).result for one in (second, first)]
        assert listed == same
        assert [tool["name"] for tool in listed["tools"]] == [
            *("search_notes", "get_note", "create_note", "delete_note")
        ]
        assert alice.owns(await get(second, alice))


async def test_the_same_request_id_at_the_same_time_is_nobody_else_s(
    chained: Chain, wire: To, alice: Person, bob: Person
) -> None:
    jobs = [(one, url, id) for id in ("same", 7, 0) for one in (alice, bob) for url in chained.replicas] * 5
    calls = [
        wire(one, url=url).send("tools/call", {"name": "search_notes", "arguments": {"query": "roadmap"}}, id)
        for one, url, id in jobs
    ]
    for (person, _, id), reply in zip(jobs, await asyncio.gather(*calls), strict=True):
        assert reply.json["id"] == id
        assert [note["organisation"] for note in reply.result["structuredContent"]["notes"]] == [person.organisation]


async def test_a_hundred_calls_succeed_wherever_they_go(chained: Chain, wire: To, alice: Person, bob: Person) -> None:
    chance = random.Random(100)
    jobs = [
        (chance.choice((alice, bob)), chance.choice(OPERATIONS), chance.choice(ERAS), chance.choice(chained.replicas))
        for _ in range(100)
    ]
    replies = await asyncio.gather(*(operation(wire(person, era, url), person) for person, operation, era, url in jobs))
    wrong = [
        (job[0].email, reply.status, reply.body)
        for job, reply in zip(jobs, replies, strict=True)
        if not job[0].owns(reply)
    ]
    assert wrong == []
