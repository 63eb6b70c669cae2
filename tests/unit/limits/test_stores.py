"""What every store of counters promises: one suite over memory, a real Valkey and a real PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rowgate.config.limits import Rate
from rowgate.limits.window import Charge

if TYPE_CHECKING:
    from unit.limits.conftest import Store

HOUR = 3600


def charge(limit: str, *identity: str, amount: int, period: int = HOUR, cost: int = 1) -> Charge:
    return Charge(limit, identity, Rate(amount, period), cost)


async def test_a_budget_is_spent_by_as_many_as_it_has_and_no_more(store: Store) -> None:
    one = charge("subject", "main", "alice", amount=3)
    assert [await store.counters.charge([one]) for _ in range(3)] == [None] * 3
    exhausted = await store.counters.charge([one])
    assert exhausted is not None
    assert exhausted.charge == one
    assert 0 < exhausted.wait <= 2 * HOUR


async def test_a_refused_charge_takes_nothing_from_the_other_budgets_of_the_request(store: Store) -> None:
    address, subject = charge("address", "main", "192.0.2.1", amount=4), charge("subject", "main", "bob", amount=1)
    assert await store.counters.charge([address, subject]) is None
    for _ in range(10):
        exhausted = await store.counters.charge([address, subject])
        assert exhausted is not None
        assert exhausted.charge.limit == "subject"
    # The shared address has lost what was really used: one.
    assert [await store.counters.charge([address]) for _ in range(4)].count(None) == 3


async def test_an_expensive_charge_takes_what_it_costs_and_is_refused_where_a_cheap_one_still_fits(
    store: Store,
) -> None:
    def costing(cost: int) -> Charge:
        return charge("subject", "main", "carol", amount=10, cost=cost)

    assert await store.counters.charge([costing(7)]) is None
    assert await store.counters.charge([costing(4)]) is not None
    assert await store.counters.charge([costing(3)]) is None
    assert await store.counters.charge([costing(1)]) is not None


async def test_budgets_of_others_limits_and_periods_are_not_touched(store: Store) -> None:
    spent = charge("subject", "main", "dave", amount=1)
    assert await store.counters.charge([spent]) is None
    assert await store.counters.charge([spent]) is not None
    for other in (
        charge("subject", "main", "erin", amount=1),
        charge("subject", "other", "dave", amount=1),
        charge("reads", "main", "dave", amount=1),
        charge("subject", "maind", "ave", amount=1),
        charge("subject", "main", "dave", "", amount=1),
        charge("subject", "main", "dave", amount=1, period=HOUR // 2),
    ):
        assert await store.counters.charge([other]) is None


async def test_after_the_wait_that_was_said_the_charge_fits_again(store: Store) -> None:
    one = charge("subject", "main", "frank", amount=4, period=2)
    assert [await store.counters.charge([one]) for _ in range(4)] == [None] * 4
    exhausted = await store.counters.charge([one])
    assert exhausted is not None
    assert exhausted.wait <= 4
    await store.pass_time(exhausted.wait + 0.05)
    assert await store.counters.charge([one]) is None


async def test_the_whole_budget_is_back_after_two_periods(store: Store) -> None:
    one = charge("subject", "main", "grace", amount=2, period=1)
    while await store.counters.charge([one]) is None:
        pass
    await store.pass_time(2.1)
    assert [await store.counters.charge([one]) for _ in range(2)] == [None] * 2
    assert await store.counters.charge([one]) is not None


async def test_a_hundred_at_once_get_what_there_is_and_no_more_from_two_replicas(store: Store) -> None:
    other = store.replica()
    address, subject = charge("address", "192.0.2.9", amount=60), charge("subject", "heidi", amount=40)
    turns = [
        counters.charge([address, subject] if n % 2 else [subject, address])
        for n in range(50)
        for counters in (store.counters, other)
    ]
    assert (await asyncio.gather(*turns)).count(None) == 40
    assert (await asyncio.gather(*(store.counters.charge([address]) for _ in range(30)))).count(None) == 20


async def test_the_refusal_that_lasts_longest_is_the_one_that_is_said(store: Store) -> None:
    short, long = charge("address", "a", amount=1, period=60), charge("subject", "b", amount=1, period=HOUR)
    assert await store.counters.charge([short, long]) is None
    exhausted = await store.counters.charge([short, long])
    assert exhausted is not None
    assert exhausted.charge.limit == "subject"
    assert exhausted.wait > 60


@pytest.mark.parametrize("subject", ["alice@example.com", "ü/\x1f{}\n", "x" * 5000, ""])
async def test_any_text_can_be_an_identity(store: Store, subject: str) -> None:
    one = charge("subject", "main", subject, amount=1)
    assert await store.counters.charge([one]) is None
    assert await store.counters.charge([one]) is not None
