"""Each user reads what is theirs, through every door that a plugin has."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable

import pytest

from rls.chain import Chain
from rls.person import ERAS, OPERATIONS, Operation, Person, Wire, complete, organisations, search

To = Callable[..., Wire]


def free_of(other: Person, body: str) -> bool:
    foreign = (other.organisation, other.organisation_id, other.title)
    return not any(word in body for word in foreign)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_user_gets_the_own_rows_and_no_other(
    wire: To, alice: Person, bob: Person, operation: Operation, era: str
) -> None:
    for person, other in ((alice, bob), (bob, alice)):
        reply = await operation(wire(person, era), person)
        assert person.owns(reply), reply.body
        assert free_of(other, reply.body.decode())


async def test_a_search_finds_the_own_notes_completely(wire: To, alice: Person, bob: Person) -> None:
    found = {}
    for person in (alice, bob):
        reply = await wire(person).call("search_notes", query="roadmap")
        found[person.organisation] = [
            (note["id"], note["organisation"]) for note in reply.result["structuredContent"]["notes"]
        ]
    assert found == {"Acme": [(alice.note, "Acme")], "Globex": [(bob.note, "Globex")]}


@pytest.mark.parametrize("era", ERAS)
async def test_another_user_s_note_is_answered_like_one_that_never_was(
    wire: To, alice: Person, bob: Person, era: str
) -> None:
    bobs = wire(bob, era)
    missing = str(uuid.uuid4())
    for tool in ("get_note", "delete_note"):
        theirs, nobodys = await bobs.call(tool, id=alice.note), await bobs.call(tool, id=missing)
        assert theirs.result["isError"] is True
        assert (theirs.status, theirs.body) == (nobodys.status, nobodys.body)
    theirs, nobodys = [await bobs.send("resources/read", {"uri": f"notes://{id}"}) for id in (alice.note, missing)]
    assert theirs.error["code"] == -32602
    assert theirs.body.replace(alice.note.encode(), missing.encode()) == nobodys.body


async def test_two_hundred_interleaved_rounds_of_both_users_never_mix(
    wire: To, chained: Chain, alice: Person, bob: Person
) -> None:
    chance = random.Random(20261130)

    async def ask(person: Person, other: Person, operation: Operation, era: str, url: str) -> str | None:
        reply = await operation(wire(person, era, url), person)
        right = person.owns(reply) and free_of(other, reply.body.decode())
        return None if right else f"{person.email} {operation.__name__} {era}: {reply.status} {reply.body!r}"

    jobs = [
        (person, other, chance.choice(OPERATIONS), chance.choice(ERAS), chance.choice(chained.replicas))
        for _ in range(200)
        for person, other in ((alice, bob), (bob, alice))
    ]
    chance.shuffle(jobs)
    assert {(operation, era) for _, _, operation, era, _ in jobs} == {(o, e) for o in OPERATIONS for e in ERAS}
    mixed = [wrong for wrong in await asyncio.gather(*(ask(*job) for job in jobs)) if wrong]
    assert mixed == []
    assert chained.tap.busiest > 10


async def test_a_user_without_an_organisation_sees_nothing(
    wire: To, alice: Person, bob: Person, stranger: Person
) -> None:
    strangers = wire(stranger)
    for operation in (search, complete, organisations):
        reply = await operation(strangers, stranger)
        assert reply.status == 200
        assert not any(one.owns(reply) for one in (alice, bob)), reply.body
    assert (await search(strangers, stranger)).result["structuredContent"]["notes"] == []
