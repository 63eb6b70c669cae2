"""For any policy, any offer and any caller: what is listed can be called, and what can be called is listed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rowgate.auth.principal import Principal
from rowgate.errors import GatewayError
from rowgate.policy.authorization import Authorization
from rowgate.policy.authorizer import Check, Verdict
from rowgate.policy.capability import Capability
from rowgate.policy.catalog import Catalog
from rowgate.policy.hook import Hook
from rowgate.policy.rules import require

from .conftest import House, Offering, Plugins, call, caller, prompt, resource, server, template, tool

_NAMES = ["get", "get_a", "set", "set_a"]
_NAME_PATTERNS = [*_NAMES, "*", "get*", "*_a", "s*"]
_URIS = ["x://1", "x://2", "y://1", "y://a/b"]
_URI_PATTERNS = [*_URIS, "x://*", "y://*", "y://**", "**"]
_TEMPLATES = ["x://t/{id}", "y://t/{id}"]
_TEMPLATE_PATTERNS = [*_TEMPLATES, "**"]
_PLUGINS = ["one", "two"]


def _some(values: list[str], most: int = 3) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=most, unique=True)


_REQUIRE = st.fixed_dictionaries(
    {"scopes": _some(["a", "b", "c"], 2), "roles": _some(["r", "s"], 2)},
    optional={
        "claims": st.dictionaries(st.sampled_from(["plan", "org.id"]), st.sampled_from(["pro", 1, True]), max_size=1),
        "aal": st.sampled_from(["aal1", "aal2"]),
        "client": _some(["client", "other"], 1),
        "permission": st.sampled_from(["p.one", "p.two"]),
        "session": st.sampled_from(["live", "fresh"]),
    },
)
_ENTRIES = st.lists(
    st.fixed_dictionaries(
        {
            "from": st.sampled_from(_PLUGINS),
            "tools": _some(_NAME_PATTERNS),
            "prompts": _some(_NAME_PATTERNS),
            "resources": _some(_URI_PATTERNS),
            "templates": _some(_TEMPLATE_PATTERNS),
            "prefix": st.sampled_from([None, "p", "get"]),
            "require": _REQUIRE,
        }
    ),
    min_size=1,
    max_size=4,
)
_OFFERS = st.fixed_dictionaries(
    {
        name: st.fixed_dictionaries(
            {
                "tools": st.lists(
                    st.sampled_from([*map(tool, _NAMES), tool("get", inputSchema={}), tool("ü")]), max_size=4
                ),
                "prompts": st.lists(st.sampled_from([*map(prompt, _NAMES)]), max_size=3),
                "resources": st.lists(st.sampled_from([*map(resource, _URIS)]), max_size=3),
                "templates": st.lists(st.sampled_from([*map(template, _TEMPLATES)]), max_size=2),
            }
        )
        for name in _PLUGINS
    }
)
_SCOPES = st.fixed_dictionaries(
    {
        "required": _some(["a", "b"], 1),
        "implies": st.dictionaries(st.sampled_from("abc"), _some(["a", "b", "c"], 2), max_size=2),
    }
)
_CALLERS = st.builds(
    lambda scopes, roles, more: caller(scopes=scopes, roles=roles, **more),
    _some(["a", "b", "c"]),
    _some(["r", "s"], 2),
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["user", "user", "application"]),
            "client_id": st.sampled_from(["client", "other", None]),
            "session_id": st.sampled_from(["s", None]),
            "aal": st.sampled_from(["aal1", "aal2", None]),
            "claims": st.sampled_from([{}, {"plan": "pro"}, {"plan": [1, "free"]}, {"org": {"id": True}}]),
        }
    ),
)
_PREFIXES = ["", "p_", "get_"]


class Grants:
    """An authorizer that permits what it was told, and a project in which every session lives."""

    def __init__(self, permitted: list[str]) -> None:
        self.permitted = permitted

    async def ask(self, principal: Principal, checks: Sequence[Check]) -> list[Verdict]:
        return ["allowed" if check.permission in self.permitted else "denied" for check in checks]

    async def require(self, principal: Principal, max_age: float) -> None:
        assert principal.session_id


class Showing:
    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def visible(self, principal: Principal, capability: Capability) -> bool:
        return capability.inner in self.shown


_SHOWN = st.none() | _some([*_NAMES, *_URIS, *_TEMPLATES], 8)


class Asked:
    """One server as its callers meet it: what they are shown, and what they may call."""

    def __init__(self, catalog: Catalog, principal: Principal, authorization: Authorization) -> None:
        self.catalog = catalog
        self._principal = principal
        self._authorization = authorization

    def callable(self, method: str, **params: Any) -> bool:
        asked = call(method, **params)
        try:
            target = self.catalog.resolve(asked, self._principal)
            require(target.decision)
            asyncio.run(self._authorization.authorize(asked, self._principal, target))
        except GatewayError:
            return False
        return True

    def listed(self, method: str, key: str) -> set[str]:
        permitted = asyncio.run(self._authorization.permitted(self._principal, self.catalog))
        return {item[key] for item in self.catalog.list(method, self._principal, permitted)}


def _house(
    entries: list[dict[str, Any]],
    offers: dict[str, Any],
    scopes: dict[str, Any],
    issuable: list[str],
    hook: Hook | None = None,
    **members: Any,
) -> House:
    plugins = Plugins(**{name: Offering(**lists) for name, lists in offers.items()})
    hooks = {"main": hook} if hook else {}
    return House(plugins, {"main": server(*entries, scopes=scopes, **members)}, issuable=issuable, hooks=hooks)


@settings(max_examples=300, deadline=None)
@given(_ENTRIES, _OFFERS, _SCOPES, _some(["a", "b", "c"]), _CALLERS, _some(["p.one", "p.two"]) | st.none(), _SHOWN)
def test_listed_is_callable_and_callable_is_listed(
    entries: list[dict[str, Any]],
    offers: dict[str, Any],
    scopes: dict[str, Any],
    issuable: list[str],
    principal: Principal,
    permitted: list[str] | None,
    shown: list[str] | None,
) -> None:
    hook = None if shown is None else Hook(Showing(shown), "test")
    members = {} if permitted is None else {"authorizer": {"function": "may"}}
    house = _house(entries, offers, scopes, issuable, hook, **members)
    catalog = asyncio.run(house.catalogs.of("main", principal))
    grants = Grants(permitted or [])
    authorizer = None if permitted is None else grants
    asked = Asked(catalog, principal, Authorization("main", authorizer=authorizer, hook=hook, liveness=grants))
    for method, called in (("tools/list", "tools/call"), ("prompts/list", "prompts/get")):
        names = {prefix + name for prefix in _PREFIXES for name in (*_NAMES, "ü", "none")}
        able = {name for name in names if asked.callable(called, name=name)}
        assert able == asked.listed(method, "name")
    prompts = {prefix + name for prefix in _PREFIXES for name in _NAMES}
    assert asked.listed("prompts/list", "name") == {
        name for name in prompts if asked.callable("completion/complete", ref={"type": "ref/prompt", "name": name})
    }
    assert asked.listed("resources/templates/list", "uriTemplate") == {
        text for text in _TEMPLATES if asked.callable("completion/complete", ref={"type": "ref/resource", "uri": text})
    }
    able = {uri for uri in _URIS if asked.callable("resources/read", uri=uri)}
    listed = asked.listed("resources/list", "uri")
    assert listed <= able
    # A pattern opens URIs that nobody lists; what somebody lists is open only where it is listed to this caller.
    for uri in able - listed:
        target = catalog.resolve(call("resources/read", uri=uri), principal)
        assert uri not in {item["uri"] for item in offers[target.plugin]["resources"]}
        assert "*" in target.capability.name


@settings(max_examples=150, deadline=None)
@given(_ENTRIES, _OFFERS, _CALLERS)
def test_nothing_is_open_that_no_entry_of_its_plugin_names(
    entries: list[dict[str, Any]], offers: dict[str, Any], principal: Principal
) -> None:
    catalog = asyncio.run(_house(entries, offers, {}, ["a", "b", "c"]).catalogs.of("main", principal))
    for capability in catalog:
        kind = {"tool": "tools", "prompt": "prompts", "resource": "resources", "template": "templates"}[capability.kind]
        named = [entry for entry in entries if entry["from"] == capability.plugin and entry[kind]]
        assert named
        assert any(capability.inner in entry[kind] or any("*" in text for text in entry[kind]) for entry in named)
    nothing = [{**entry, "tools": [], "prompts": [], "resources": [], "templates": []} for entry in entries]
    assert list(asyncio.run(_house(nothing, offers, {}, []).catalogs.of("main", principal))) == []


@settings(max_examples=100, deadline=None)
@given(_ENTRIES, _OFFERS, _CALLERS, st.permutations(_PLUGINS), st.permutations(range(4)))
def test_the_order_of_loads_and_of_entries_changes_no_right(
    entries: list[dict[str, Any]],
    offers: dict[str, Any],
    principal: Principal,
    loads: list[str],
    order: list[int],
) -> None:
    async def rights(entries: list[dict[str, Any]], loads: list[str]) -> list[frozenset[str]]:
        house = _house(entries, offers, {}, ["a"])
        for plugin in loads:
            if any(entry["from"] == plugin for entry in entries):
                await house.catalogs._offers.refresh(plugin)
        catalog = await house.catalogs.of("main", principal)
        return [
            frozenset(item[key] for item in catalog.list(method, principal))
            for method, key in (("tools/list", "name"), ("prompts/list", "name"), ("resources/list", "uri"))
        ]

    shuffled = [entries[index] for index in order if index < len(entries)]
    assert asyncio.run(rights(entries, _PLUGINS)) == asyncio.run(rights(shuffled, loads))
