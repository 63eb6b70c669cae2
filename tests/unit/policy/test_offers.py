"""Asking plugins what they have: all pages, bounded; failures apart; kept fresh; never mixed between callers."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from rowgate.auth.principal import Principal
from rowgate.errors import GatewayError, MethodNotFound, UnknownCapability
from rowgate.observe.events import CatalogLoaded, Defect
from rowgate.policy.offer_cache import MAX_CALLERS, MAX_STALE, OfferCache
from rowgate.policy.offers import MAX_ITEMS, MAX_PAGES, Fetched, fetch

from .conftest import Clock, House, Offering, Plugins, call, caller, resource, server, tool

ENTRY = {"from": "notes", "tools": ["*"], "resources": ["**"]}


def _house(offering: Any, **settings: Any) -> House:
    return House(Plugins(notes=offering), {"main": server(ENTRY)}, settings={"notes": settings})


async def _settle(house: House) -> None:
    """Until every flight that is under way has landed."""
    while flights := list(house.catalogs._offers._flights):
        await asyncio.gather(*flights, return_exceptions=True)


# --- pages -------------------------------------------------------------------------------------------------


async def _fetch_tools(pages: Mapping[str | None, dict[str, Any]]) -> tuple[Fetched, list[str | None]]:
    cursors: list[str | None] = []

    async def ask(plugin: str, method: str, params: dict[str, Any], principal: Principal | None) -> dict[str, Any]:
        if method == "server/discover":
            return {"capabilities": {"tools": {}}}
        assert method == "tools/list"
        cursors.append(params.get("cursor"))
        return pages[params.get("cursor")]

    return await fetch("notes", ask, None, Clock()), cursors


async def test_every_page_is_fetched_and_an_empty_cursor_is_a_cursor() -> None:
    fetched, cursors = await _fetch_tools(
        {
            None: {"tools": [tool("a")], "nextCursor": ""},
            "": {"tools": [], "nextCursor": "x"},
            "x": {"tools": [tool("b")], "nextCursor": None},
        }
    )
    assert [item["name"] for item in fetched.listings["tools/list"].items] == ["a", "b"]
    assert cursors == [None, "", "x"]


async def test_a_circle_of_cursors_ends() -> None:
    fetched, cursors = await _fetch_tools(
        {
            None: {"tools": [tool("a")], "nextCursor": "x"},
            "x": {"tools": [tool("b")], "nextCursor": "y"},
            "y": {"tools": [tool("c")], "nextCursor": "x"},
        }
    )
    assert len(fetched.listings["tools/list"].items) == 3
    assert "repeats a cursor" in fetched.listings["tools/list"].complaint
    assert cursors == [None, "x", "y"]


async def test_pages_without_end_are_cut_off() -> None:
    class Endless(dict[str | None, dict[str, Any]]):
        def __missing__(self, cursor: str | None) -> dict[str, Any]:
            return {"tools": [], "nextCursor": f"{cursor}x"}

    fetched, cursors = await _fetch_tools(Endless())
    assert len(cursors) == MAX_PAGES
    assert "cut off" in fetched.listings["tools/list"].complaint


async def test_items_without_end_are_cut_off() -> None:
    fetched, cursors = await _fetch_tools({None: {"tools": [{}] * (MAX_ITEMS + 1), "nextCursor": "x"}})
    assert len(fetched.listings["tools/list"].items) == MAX_ITEMS
    assert cursors == [None]


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {}}, {"tools": [], "nextCursor": 5}])
async def test_an_answer_that_is_no_list_is_a_failure_of_that_list(page: dict[str, Any]) -> None:
    fetched, _ = await _fetch_tools({None: page})
    assert fetched.failures["tools/list"].code == "RG503"
    assert fetched.listings["prompts/list"].items == ()


async def test_items_that_are_no_objects_are_dropped_alone() -> None:
    fetched, _ = await _fetch_tools({None: {"tools": [5, None, tool("a"), ["b"]]}})
    assert [item["name"] for item in fetched.listings["tools/list"].items] == ["a"]
    assert "no objects" in fetched.listings["tools/list"].complaint


def _deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


async def test_an_item_nested_without_end_is_dropped_alone() -> None:
    fetched, _ = await _fetch_tools(
        {
            None: {
                "tools": [tool("a", inputSchema=_deep(5000)), tool("b", inputSchema=_deep(25)), tool("c", x=_deep(40))]
            }
        }
    )
    assert [item["name"] for item in fetched.listings["tools/list"].items] == ["b"]


async def test_only_the_lists_that_discover_announces_are_asked_for() -> None:
    house = _house(Offering(tools=[tool("a")]))
    await house.catalogs.load()
    assert [method for _, method, _ in house.plugins.asked] == ["server/discover", "tools/list"]


async def test_a_list_that_the_plugin_does_not_have_is_empty() -> None:
    offering = Offering(tools=[tool("a")])
    offering.capabilities = {"tools": {}, "resources": {}, "prompts": {}}
    offering.failing = dict.fromkeys(["resources/templates/list", "prompts/list"], MethodNotFound())
    house = _house(offering)
    assert await house.names() == ["a"]
    assert house.loads == [("notes", "ok")]


async def test_a_plugin_without_discover_is_asked_for_everything() -> None:
    offering = Offering(tools=[tool("a")], resources=[resource("note://1")])
    offering.failing = {"server/discover": MethodNotFound()}
    house = _house(offering)
    assert await house.names() == ["a"]
    assert await house.names("resources/list") == ["note://1"]


# --- failures ----------------------------------------------------------------------------------------------


async def test_a_dead_plugin_takes_nothing_but_its_own_items_away() -> None:
    dead = Offering(tools=[tool("b")])
    dead.fail()
    entries = [{"from": "live", "tools": ["*"]}, {"from": "dead", "tools": ["*"]}]
    house = House(Plugins(live=Offering(tools=[tool("a")]), dead=dead), {"main": server(*entries)})
    await house.catalogs.load()
    assert await house.names() == ["a"]
    assert sorted(house.loads) == [("dead", "failed"), ("live", "ok")]
    catalog = await house.catalogs.of("main", caller())
    assert not catalog.complete
    assert 0 < catalog.ttl_ms(house.clock.now) <= 5000
    assert (house.catalogs.answered("live"), house.catalogs.answered("dead")) == (True, False)


async def test_one_failing_list_leaves_the_others() -> None:
    offering = Offering(tools=[tool("a")], resources=[resource("note://1")])
    offering.failing = {"resources/list": GatewayError(reason="broken")}
    house = _house(offering)
    assert await house.names() == ["a"]
    assert house.loads == [("notes", "partial")]
    catalog = await house.catalogs.of("main", caller())
    assert catalog.offered(caller()) == {"tools", "resources"}
    with pytest.raises(UnknownCapability):
        catalog.resolve(call("resources/read", uri="note://1"), caller())


async def test_the_last_good_lists_outlive_their_plugin_for_a_bounded_time() -> None:
    offering = Offering(tools=[tool("a")])
    house = _house(offering, list_ttl="60s")
    await house.catalogs.load()
    offering.fail()
    house.clock.now += MAX_STALE
    await house.catalogs.load()
    assert await house.names() == ["a"]
    assert not (await house.catalogs.of("main", caller())).complete
    house.clock.now += 1
    await house.catalogs.load()
    assert await house.names() == []
    offering.recover()
    await house.catalogs.load()
    assert await house.names() == ["a"]
    assert (await house.catalogs.of("main", caller())).complete


async def test_nobody_waits_for_a_plugin_that_is_known_to_fail() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail()
    house = _house(offering)
    await house.catalogs.load()
    house.plugins.hold()
    house.clock.now += 100
    assert await house.names() == []  # would never end if it waited: the plugin's answer is held back
    offering.recover()
    house.plugins.gate.set()
    await _settle(house)
    assert await house.names() == ["a"]


async def test_attempts_grow_rarer_while_a_plugin_fails() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail()
    house = _house(offering)
    pauses = []
    for _ in range(7):
        await house.catalogs.load()
        pauses.append(house.catalogs._offers.due("notes") - house.clock.now)
        house.clock.now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


async def test_clients_keep_a_list_with_gaps_for_a_short_time_only() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail()
    house = _house(offering)
    for _ in range(6):
        await house.catalogs.load()
    assert house.catalogs._offers.due("notes") - house.clock.now == 30
    assert (await house.catalogs.of("main", caller())).ttl_ms(house.clock.now) == 5000


async def test_a_defect_in_asking_is_told_and_survived() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail(ZeroDivisionError("eyJ-secret"))
    house = _house(offering)
    await house.catalogs.load()
    assert await house.names() == []
    assert any(isinstance(event, Defect) for event in house.events)
    assert not any("eyJ-secret" in event.detail for event in house.events if isinstance(event, CatalogLoaded))


async def test_a_plugin_that_never_answers_is_given_up() -> None:
    house = _house(Offering(tools=[tool("a")]), timeout="100ms")
    house.plugins.hold()
    await house.catalogs.load()
    assert house.loads == [("notes", "failed")]


# --- freshness ---------------------------------------------------------------------------------------------


async def test_a_fresh_catalog_is_answered_without_asking_and_is_the_same_object() -> None:
    house = _house(Offering(tools=[tool("a")]), list_ttl="60s")
    await house.catalogs.load()
    first = await house.catalogs.of("main", caller("alice"))
    house.clock.now += 59
    assert await house.catalogs.of("main", caller("bob")) is first
    assert house.plugins.discovers("notes") == 1
    assert first.ttl_ms(house.clock.now) == 1000


async def test_a_stale_catalog_is_answered_at_once_and_renewed_behind() -> None:
    offering = Offering(tools=[tool("a")])
    house = _house(offering, list_ttl="60s")
    await house.catalogs.load()
    offering.lists["tools/list"] = [tool("b")]
    house.clock.now += 61
    assert await house.names() == ["a"]
    await _settle(house)
    assert await house.names() == ["b"]


async def test_a_catalog_that_nobody_asked_for_long_is_renewed_first() -> None:
    offering = Offering(tools=[tool("a")])
    house = _house(offering, list_ttl="60s")
    await house.catalogs.load()
    offering.lists["tools/list"] = [tool("b")]
    house.clock.now += 121
    assert await house.names() == ["b"]


async def test_many_callers_at_once_ask_the_plugin_once() -> None:
    house = _house(Offering(tools=[tool("a")]))
    house.plugins.hold()
    askers = [asyncio.create_task(house.names(principal=caller(f"user-{n}"))) for n in range(50)]
    await house.plugins.waiting.wait()
    house.plugins.gate.set()
    assert await asyncio.gather(*askers) == [["a"]] * 50
    assert house.plugins.discovers("notes") == 1


async def test_a_caller_who_leaves_does_not_take_the_answer_from_the_others() -> None:
    house = _house(Offering(tools=[tool("a")]))
    house.plugins.hold()
    first = asyncio.create_task(house.names())
    await house.plugins.waiting.wait()
    second = asyncio.create_task(house.names())
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    house.plugins.gate.set()
    assert await second == ["a"]
    assert house.plugins.discovers("notes") == 1


async def test_an_unchanged_offer_keeps_its_definitions() -> None:
    house = _house(Offering(tools=[tool("a")]))
    await house.catalogs.load()
    (before,) = await house.catalogs.of("main", caller())
    await house.catalogs.load()
    (after,) = await house.catalogs.of("main", caller())
    assert before is after


async def test_shared_lists_stay_fresh_without_traffic_and_a_plugin_that_returns_is_noticed() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail()
    house = _house(offering, list_ttl="60s")
    slept: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            offering.recover()
        if len(slept) == 6:
            enough.set()
            await asyncio.Event().wait()
        house.clock.now += seconds

    running = asyncio.create_task(house.catalogs.run(sleep))
    await enough.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert slept == [1, 2, 4, 60, 60, 60]
    assert [outcome for _, outcome in house.loads] == ["failed"] * 3 + ["ok"] * 3


async def test_closing_ends_what_is_under_way() -> None:
    house = _house(Offering(tools=[tool("a")]))
    house.plugins.hold()
    asker = asyncio.create_task(house.names())
    await house.plugins.waiting.wait()
    await house.catalogs.close()
    with pytest.raises(asyncio.CancelledError):
        await asker
    assert not house.catalogs._offers._flights


# --- callers -----------------------------------------------------------------------------------------------


def _own(principal: Principal | None) -> Offering:
    assert principal is not None
    return Offering(tools=[tool(f"only_for_{principal.subject}")])


async def test_lists_of_a_plugin_that_tells_callers_apart_never_mix() -> None:
    house = _house(_own, lists="per_caller")
    wanted = [f"user-{n % 20}" for n in range(200)]
    got = await asyncio.gather(*(house.names(principal=caller(subject)) for subject in wanted))
    assert got == [[f"only_for_{subject}"] for subject in wanted]
    catalog = await house.catalogs.of("main", caller("user-1"))
    with pytest.raises(UnknownCapability):
        catalog.resolve(call("tools/call", name="only_for_user-2"), caller("user-1"))


async def test_such_lists_are_asked_for_as_the_caller_and_shared_ones_as_the_gateway() -> None:
    plugins = Plugins(own=_own, shared=Offering(tools=[tool("a")]))
    entries = [{"from": "own", "tools": ["*"]}, {"from": "shared", "tools": ["*"]}]
    house = House(plugins, {"main": server(*entries)}, settings={"own": {"lists": "per_caller"}})
    assert await house.names(principal=caller("alice")) == ["only_for_alice", "a"]
    assert {(plugin, subject) for plugin, _, subject in plugins.asked} == {("own", "alice"), ("shared", None)}


@pytest.mark.parametrize(
    "other",
    [
        caller("bob"),
        caller("alice", scopes=["x"]),
        caller("alice", roles=["x"]),
        Principal(kind="user", subject="alice", issuer="https://other.example", client_id="client"),
        Principal(kind="user", subject="alice", issuer="https://project.example/auth/v1", client_id="another"),
        Principal(kind="application", subject="alice", issuer="https://project.example/auth/v1", client_id="client"),
        replace(caller("alice"), aal="aal2"),
        replace(caller("alice"), claims={"role": "staff"}),
    ],
)
async def test_whatever_tells_callers_apart_gets_lists_of_its_own(other: Principal) -> None:
    house = _house(lambda principal: Offering(tools=[tool("a")]), lists="per_caller")
    first = await house.catalogs.of("main", caller("alice"))
    assert await house.catalogs.of("main", caller("alice")) is first
    assert await house.catalogs.of("main", other) is not first
    assert house.plugins.discovers("notes") == 2


async def test_the_number_of_callers_that_are_remembered_is_bounded() -> None:
    house = _house(_own, lists="per_caller")
    for number in range(MAX_CALLERS + 10):
        await house.catalogs.of("main", caller(f"user-{number}"))
    assert len(house.catalogs._views["main"].snapshots) == MAX_CALLERS
    assert len(house.catalogs._offers._shelves["notes"].slots) == MAX_CALLERS


async def test_policy_narrows_what_a_plugin_offers_to_a_caller() -> None:
    offer = Offering(tools=[tool("a"), tool("admin")])
    entries = [
        {"from": "notes", "tools": ["a"]},
        {"from": "notes", "tools": ["admin"], "require": {"roles": ["admin"]}},
    ]
    house = House(
        Plugins(notes=lambda principal: offer), {"main": server(*entries)}, settings={"notes": {"lists": "per_caller"}}
    )
    assert await house.names() == ["a"]
    assert await house.names(principal=caller(roles=["admin"])) == ["a", "admin"]


async def test_a_name_that_one_caller_is_not_offered_is_no_finding() -> None:
    house = House(
        Plugins(notes=_own),
        {"main": server({"from": "notes", "tools": ["only_for_alice", "only_for_bob"]})},
        settings={"notes": {"lists": "per_caller"}},
    )
    assert await house.names(principal=caller("alice")) == ["only_for_alice"]
    assert house.quarantined == []


async def test_a_bad_tool_that_many_callers_are_offered_is_said_once() -> None:
    house = _house(lambda principal: Offering(tools=[tool("bad", inputSchema={})]), lists="per_caller")
    for number in range(5):
        await house.catalogs.of("main", caller(f"user-{number}"))
    assert house.quarantined == [("notes", "bad", "invalid")]


async def test_a_plugin_that_tells_callers_apart_is_probed_by_the_gateway_for_readiness() -> None:
    house = _house(lambda principal: Offering(tools=[tool("a")]), lists="per_caller")
    assert not house.catalogs.answered("notes")
    await house.catalogs.load()
    assert house.catalogs.answered("notes")
    assert house.plugins.asked == [("notes", "server/discover", None)]
    await house.catalogs.run()  # ends by itself: from here on only callers make the gateway ask


async def test_caller_lists_are_never_asked_for_without_a_caller() -> None:
    house = _house(_own, lists="per_caller")
    offers: OfferCache = house.catalogs._offers
    with pytest.raises(ValueError, match="without one"):
        await offers.refresh("notes", None)


async def test_nothing_of_the_first_request_sticks_to_a_shared_answer() -> None:
    current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="nobody")
    seen: list[str] = []

    def offering(principal: Principal | None) -> Offering:
        seen.append(f"{current.get()} {principal}")
        return Offering(tools=[tool("a")])

    house = _house(offering)
    current.set("alice")
    await house.names(principal=caller("alice"))
    assert set(seen) == {"nobody None"}
