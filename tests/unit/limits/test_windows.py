"""The arithmetic of a window, and what memory keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rowgate.config.limits import Rate
from rowgate.limits.memory import MemoryCounters
from rowgate.limits.window import Charge, Window

if TYPE_CHECKING:
    from unit.limits.conftest import Clock

EPSILON = 1e-4


def later(window: Window, seconds: float, period: int) -> Window:
    """The same window, some time on, when nobody charged it meanwhile."""
    if seconds < window.remaining:
        return Window(window.current, window.previous, window.remaining - seconds)
    if seconds < window.remaining + period:
        return Window(0, window.current, window.remaining + period - seconds)
    return Window(0, 0, float(period))


@given(st.data())
def test_the_wait_that_is_said_is_enough_and_no_longer_than_needed(data: st.DataObject) -> None:
    period = data.draw(st.integers(1, 3600))
    amount = data.draw(st.integers(1, 1000))
    charge = Charge("subject", ("a",), Rate(amount, period), data.draw(st.integers(1, amount)))
    window = Window(
        data.draw(st.integers(0, amount)),
        data.draw(st.integers(0, amount)),
        data.draw(st.floats(0.001, 1)) * period,
    )
    if window.fits(charge):
        return
    wait = window.wait(charge)
    assert 0 <= wait <= 2 * period
    assert later(window, wait + EPSILON, period).fits(charge)
    if wait > EPSILON:
        assert not later(window, wait - EPSILON, period).fits(charge)


@given(st.lists(st.floats(0.01, 30), max_size=60), st.integers(1, 8), st.integers(1, 40))
async def test_no_period_lets_through_twice_the_budget(pauses: list[float], amount: int, period: int) -> None:
    now = 0.0
    counters = MemoryCounters(monotonic=lambda: now)
    passed: list[float] = []
    for pause in pauses:
        now += pause
        if await counters.charge([Charge("subject", ("a",), Rate(amount, period))]) is None:
            passed.append(now)
    for end in passed:
        assert sum(end - period < at <= end for at in passed) < 2 * amount or amount == 1


async def test_a_burst_at_the_turn_of_two_windows_is_refused_where_fixed_windows_would_let_it_pass(
    clock: Clock,
) -> None:
    counters = MemoryCounters(monotonic=clock)
    one = Charge("subject", ("a",), Rate(10, 60))
    assert await counters.charge([one]) is None
    clock.now += 59
    assert [await counters.charge([one]) for _ in range(9)] == [None] * 9
    clock.now += 2
    assert [await counters.charge([one]) for _ in range(10)].count(None) == 1


async def test_memory_forgets_the_least_recent_budgets_and_never_grows_beyond_its_bound(clock: Clock) -> None:
    counters = MemoryCounters(capacity=100, monotonic=clock)
    kept = Charge("address", ("kept",), Rate(1, 60))
    assert await counters.charge([kept]) is None
    for n in range(1000):
        await counters.charge([Charge("address", (str(n),), Rate(1, 60))])
        assert len(counters) <= 100
    assert await counters.charge([kept]) is None


async def test_a_budget_that_is_used_is_not_forgotten_for_a_flood_of_others(clock: Clock) -> None:
    counters = MemoryCounters(capacity=100, monotonic=clock)
    used = Charge("subject", ("alice",), Rate(1, 60))
    assert await counters.charge([used]) is None
    for n in range(1000):
        await counters.charge([Charge("address", (str(n),), Rate(1, 60))])
        if n % 90 == 0:
            assert await counters.charge([used]) is not None
