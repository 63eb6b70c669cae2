"""What a server exposes, to whom, and where a call goes."""

from __future__ import annotations

from typing import Any

import pytest

from rowgate.auth.principal import Principal
from rowgate.errors import InsufficientScope, InvalidParams, UnknownCapability
from rowgate.policy.catalog import Catalog, Target
from rowgate.policy.rules import require

from .conftest import House, Offering, Plugins, call, caller, prompt, resource, server, template, tool


async def _house(offering: Offering, *entries: dict[str, Any], **members: Any) -> House:
    settings = {"notes": members.pop("settings", {})}
    issuable = members.pop("issuable", ("a", "b"))
    named = [{"from": "notes", **entry} for entry in entries]
    return House(Plugins(notes=offering), {"main": server(*named, **members)}, settings=settings, issuable=issuable)


async def _catalog(offering: Offering, *entries: dict[str, Any], **members: Any) -> Catalog:
    return await (await _house(offering, *entries, **members)).catalogs.of("main", caller())


def _refusal(catalog: Catalog, method: str, principal: Principal | None = None, **params: Any) -> tuple[Any, ...]:
    """Everything of the refusal that could reach a client."""
    with pytest.raises(UnknownCapability) as refused:
        require(catalog.resolve(call(method, **params), principal or caller()).decision)
    error = refused.value
    return error.code, error.status, error.rpc_code, error.message, error.data, error.headers


def _read(catalog: Catalog, uri: str, principal: Principal | None = None) -> Target:
    target = catalog.resolve(call("resources/read", uri=uri), principal or caller())
    require(target.decision)
    return target


# --- what is listed ----------------------------------------------------------------------------------------


async def test_what_no_entry_names_is_not_exposed() -> None:
    offering = Offering(
        tools=[tool("a"), tool("b")],
        resources=[resource("note://1")],
        templates=[template("note://{id}")],
        prompts=[prompt("p")],
    )
    catalog = await _catalog(offering, {"tools": ["a"]})
    assert [item["name"] for item in catalog.list("tools/list", caller())] == ["a"]
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert catalog.list(method, caller()) == []
    _refusal(catalog, "tools/call", name="b")
    _refusal(catalog, "prompts/get", name="p")
    _refusal(catalog, "resources/read", uri="note://1")


async def test_definitions_survive_with_members_that_nobody_knows() -> None:
    offered = tool("a", _meta={"x/y": [1]}, vendorField={"deep": [{"a": 2**70}]})
    catalog = await _catalog(Offering(tools=[offered]), {"tools": ["a"]})
    assert catalog.list("tools/list", caller()) == [offered]


async def test_lists_follow_the_configured_order_of_plugins_and_then_the_plugins_own() -> None:
    plugins = Plugins(
        zeta=Offering(tools=[tool("z2"), tool("z1")]), alpha=Offering(tools=[tool("a1"), tool("a3"), tool("a2")])
    )
    entries = [
        {"from": "zeta", "tools": ["z1"]},
        {"from": "alpha", "tools": ["a*"]},
        {"from": "zeta", "tools": ["z2"]},
    ]
    assert await House(plugins, {"main": server(*entries)}).names() == ["z2", "z1", "a1", "a3", "a2"]


async def test_a_caller_is_listed_only_what_they_may_call() -> None:
    offering = Offering(tools=[tool("free"), tool("scoped"), tool("edit")])
    house = await _house(
        offering,
        {"tools": ["free"]},
        {"tools": ["scoped"], "require": {"scopes": ["a"]}},
        {"tools": ["edit"], "require": {"roles": ["editor"]}},
    )
    assert await house.names() == ["free"]
    assert await house.names(principal=caller(scopes=["a"])) == ["free", "scoped"]
    assert await house.names(principal=caller(roles=["editor"])) == ["free", "edit"]
    assert await house.names() == ["free"]


async def test_titles_and_hints_of_the_configuration_are_listed() -> None:
    bare = {"name": "a", "inputSchema": {"type": "object"}}
    entry = {"tools": ["a"], "hints": {"a": {"title": "Find", "read_only": True}}}
    (listed,) = (await _catalog(Offering(tools=[bare]), entry)).list("tools/list", caller())
    assert listed["title"] == "Find"
    assert listed["annotations"] == {"readOnlyHint": True}


# --- calls -------------------------------------------------------------------------------------------------


async def test_a_hidden_tool_is_answered_like_an_unknown_one() -> None:
    catalog = await _catalog(
        Offering(tools=[tool("edit"), tool("undeclared"), tool("nobody"), tool("broken", inputSchema={})]),
        {"tools": ["edit"], "require": {"roles": ["editor"]}},
        {"tools": ["nobody"], "require": {"scopes": ["never_issued"]}},
        {"tools": ["broken"]},
    )
    refusals = {
        repr(_refusal(catalog, "tools/call", name=name))
        for name in ("edit", "undeclared", "nobody", "broken", "none", "")
    }
    assert len(refusals) == 1


async def test_a_hidden_resource_is_answered_like_an_unknown_one() -> None:
    catalog = await _catalog(
        Offering(resources=[resource("note://1"), resource("note://2")]),
        {"resources": ["note://1"], "require": {"roles": ["editor"]}},
    )
    hidden = _refusal(catalog, "resources/read", uri="note://1")
    assert hidden[2:5] == (-32602, "Resource not found", {"uri": "note://1"})
    for uri in ("note://2", "note://3", "x", ""):
        assert _refusal(catalog, "resources/read", uri=uri) == (*hidden[:4], {"uri": uri}, {})


async def test_a_scope_that_a_new_token_could_bring_is_asked_for() -> None:
    catalog = await _catalog(
        Offering(tools=[tool("scoped")]),
        {"tools": ["scoped"], "require": {"scopes": ["a"]}},
        scopes={"required": ["b"]},
    )
    target = catalog.resolve(call("tools/call", name="scoped"), caller(scopes=["b"]))
    with pytest.raises(InsufficientScope) as refused:
        require(target.decision)
    assert refused.value.scopes == ("b", "a")
    assert catalog.list("tools/list", caller(scopes=["b"])) == []


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("prompts/get", {"name": None}),
        ("resources/read", {"uri": ["note://1"]}),
        ("completion/complete", {}),
        ("completion/complete", {"ref": []}),
        ("completion/complete", {"ref": {"type": "ref/other", "name": "p"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "uri": "note://{id}"}}),
        ("completion/complete", {"ref": {"type": ["ref/prompt"], "name": "p"}}),
    ],
)
async def test_a_call_that_names_nothing_is_invalid(method: str, params: dict[str, Any]) -> None:
    catalog = await _catalog(Offering(tools=[tool("a")]), {"tools": ["a"]})
    with pytest.raises(InvalidParams):
        catalog.resolve(call(method, **params), caller())


async def test_a_prefix_is_seen_by_clients_and_never_by_the_plugin() -> None:
    offering = Offering(tools=[tool("search")], prompts=[prompt("review")], completions=True)
    catalog = await _catalog(offering, {"tools": ["search"], "prompts": ["*"], "prefix": "notes"})
    assert [item["name"] for item in catalog.list("tools/list", caller())] == ["notes_search"]
    target = catalog.resolve(call("tools/call", name="notes_search", arguments={"q": "x"}), caller())
    assert (target.plugin, target.capability.name, target.inner) == ("notes", "notes_search", "search")
    assert target.params({"name": "notes_search", "arguments": {"q": "x"}}) == {
        "name": "search",
        "arguments": {"q": "x"},
    }
    _refusal(catalog, "tools/call", name="search")
    ref = {"type": "ref/prompt", "name": "notes_review"}
    completion = catalog.resolve(call("completion/complete", ref=ref), caller())
    assert completion.params({"ref": ref, "argument": {"name": "a", "value": "b"}}) == {
        "ref": {"type": "ref/prompt", "name": "review"},
        "argument": {"name": "a", "value": "b"},
    }


async def test_a_reference_is_forwarded_with_nothing_but_what_was_judged() -> None:
    catalog = await _catalog(Offering(prompts=[prompt("p"), prompt("secret")]), {"prompts": ["p"]})
    ref = {"type": "ref/prompt", "name": "p", "uri": "note://secret"}
    target = catalog.resolve(call("completion/complete", ref=ref), caller())
    assert target.params({"ref": ref}) == {"ref": {"type": "ref/prompt", "name": "p"}}


async def test_a_tool_brings_its_parameter_headers() -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    catalog = await _catalog(Offering(tools=[tool("a", inputSchema=schema)]), {"tools": ["a"]})
    capability = catalog.resolve(call("tools/call", name="a"), caller()).capability
    assert dict(capability.param_headers) == {("region",): "Region"}
    assert capability.input_schema == schema


# --- which entry a capability belongs to -------------------------------------------------------------------


async def test_an_exact_name_beats_a_glob_wherever_it_stands() -> None:
    glob = {"tools": ["*_note"]}
    exact = {"tools": ["delete_note"], "require": {"roles": ["editor"]}}
    for entries in ([glob, exact], [exact, glob]):
        catalog = await _catalog(Offering(tools=[tool("get_note"), tool("delete_note")]), *entries)
        assert [item["name"] for item in catalog.list("tools/list", caller())] == ["get_note"]
        _refusal(catalog, "tools/call", name="delete_note")
        editor = caller(roles=["editor"])
        assert [item["name"] for item in catalog.list("tools/list", editor)] == ["get_note", "delete_note"]


async def test_what_two_entries_claim_is_served_by_neither() -> None:
    house = await _house(
        Offering(tools=[tool("a_b"), tool("a_c")]),
        {"tools": ["a_*"]},
        {"tools": ["*_b"], "require": {"roles": ["editor"]}},
    )
    assert await house.names() == ["a_c"]
    assert house.quarantined == [("notes", "a_b", "collision")]


async def test_two_plugins_with_one_public_name_lose_it_both() -> None:
    plugins = Plugins(one=Offering(tools=[tool("search"), tool("a")]), two=Offering(tools=[tool("search"), tool("b")]))
    entries = [{"from": "one", "tools": ["*"]}, {"from": "two", "tools": ["*"]}]
    for order in (entries, entries[::-1]):
        house = House(plugins, {"main": server(*order)})
        assert sorted(await house.names()) == ["a", "b"]
        assert sorted(house.quarantined) == [("one", "search", "collision"), ("two", "search", "collision")]
        _refusal(await house.catalogs.of("main", caller()), "tools/call", name="search")


async def test_prefixes_that_run_into_each_other_are_a_collision() -> None:
    plugins = Plugins(one=Offering(tools=[tool("c")]), two=Offering(tools=[tool("b_c")]))
    entries = [{"from": "one", "tools": ["*"], "prefix": "a_b"}, {"from": "two", "tools": ["*"], "prefix": "a"}]
    house = House(plugins, {"main": server(*entries)})
    assert await house.names() == []
    assert {finding[2] for finding in house.quarantined} == {"collision"}


# --- quarantine --------------------------------------------------------------------------------------------


async def test_an_invalid_tool_is_left_out_alone_and_said() -> None:
    offering = Offering(tools=[tool("good"), tool("bad", inputSchema={"type": "array"}), tool("not declared", title=3)])
    house = await _house(offering, {"tools": ["good", "bad"]})
    assert await house.names() == ["good"]
    assert house.quarantined == [("notes", "bad", "invalid")]


async def test_a_declared_name_that_is_not_offered_is_said() -> None:
    house = await _house(Offering(tools=[tool("a")]), {"tools": ["a", "b", "c*"]})
    assert await house.names() == ["a"]
    assert house.quarantined == [("notes", "b", "not_offered")]


async def test_a_name_that_is_offered_twice_differently_is_not_served() -> None:
    offering = Offering(tools=[tool("a"), tool("a", description="another"), tool("b"), tool("b")])
    house = await _house(offering, {"tools": ["*"]})
    assert await house.names() == ["b"]
    assert house.quarantined == [("notes", "a", "collision")]


async def test_a_tool_without_hints_is_quarantined_or_gets_defaults_with_one_warning() -> None:
    bare = {"name": "delete_note", "inputSchema": {"type": "object"}}
    strict = await _house(Offering(tools=[bare]), {"tools": ["*"]})
    assert await strict.names() == []
    assert strict.quarantined == [("notes", "delete_note", "no_hints")]
    lenient = await _house(Offering(tools=[bare]), {"tools": ["*"]}, settings={"hints": "default"})
    (listed,) = (await lenient.catalogs.of("main", caller())).list("tools/list", caller())
    assert (listed["title"], listed["annotations"]["destructiveHint"]) == ("Delete note", True)
    await lenient.catalogs.load()
    await lenient.catalogs.load()
    assert lenient.quarantined == [("notes", "delete_note", "hints_defaulted")]


async def test_a_name_too_long_with_its_prefix_is_quarantined() -> None:
    house = await _house(Offering(tools=[tool("x" * 60), tool("y" * 58)]), {"tools": ["*"], "prefix": "notes"})
    assert await house.names() == ["notes_" + "y" * 58]
    assert house.quarantined == [("notes", "x" * 60, "invalid")]


async def test_quarantine_is_said_at_each_load() -> None:
    house = await _house(Offering(tools=[tool("bad", inputSchema={})]), {"tools": ["*"]})
    await house.catalogs.load()
    await house.catalogs.load()
    assert house.quarantined == [("notes", "bad", "invalid")] * 2


# --- resources ---------------------------------------------------------------------------------------------


async def test_a_listed_resource_goes_to_whoever_lists_it() -> None:
    plugins = Plugins(
        one=Offering(resources=[resource("note://1")]),
        two=Offering(resources=[resource("note://2")], templates=[template("note://{id}")]),
    )
    entries = [{"from": "one", "resources": ["note://1"]}, {"from": "two", "templates": ["note://{id}"]}]
    catalog = await House(plugins, {"main": server(*entries)}).catalogs.of("main", caller())
    assert _read(catalog, "note://1").plugin == "one"
    assert _read(catalog, "note://3").plugin == "two"


async def test_a_template_instance_is_read_by_the_rule_of_its_template() -> None:
    catalog = await _catalog(
        Offering(templates=[template("note://{id}"), template("audit://{id}")]),
        {"templates": ["note://{id}"]},
        {"templates": ["audit://{id}"], "require": {"roles": ["auditor"]}},
    )
    target = _read(catalog, "note://7")
    assert (target.inner, target.capability.name) == ("note://7", "note://{id}")
    _refusal(catalog, "resources/read", uri="audit://7")
    assert _read(catalog, "audit://7", caller(roles=["auditor"])).inner == "audit://7"
    _refusal(catalog, "resources/read", uri="other://7")
    _refusal(catalog, "resources/read", uri="note://7/8")


async def test_a_glob_opens_what_is_not_listed_and_nothing_else() -> None:
    catalog = await _catalog(
        Offering(resources=[resource("note://1"), resource("file:///a")]), {"resources": ["note://*"]}
    )
    assert _read(catalog, "note://99").capability.name == "note://*"
    for uri in ("note://1/2", "file:///a", "NOTE://1", "note://%2e%2e", "note://..", "note://a%2fb", "note://%00"):
        _refusal(catalog, "resources/read", uri=uri)


async def test_a_template_does_not_open_a_uri_with_dot_segments_or_encoded_separators() -> None:
    catalog = await _catalog(
        Offering(templates=[template("file:///public/{+path}")]), {"templates": ["file:///public/{+path}"]}
    )
    assert _read(catalog, "file:///public/a/b").plugin == "notes"
    for path in ("../secret", "a/../../secret", "%2e%2e/secret", "..%2fsecret", "a%5c..%5csecret", "%252e%252e/x"):
        _refusal(catalog, "resources/read", uri=f"file:///public/{path}")


async def test_a_template_does_not_open_a_listed_resource_that_is_not_declared() -> None:
    catalog = await _catalog(
        Offering(resources=[resource("note://all")], templates=[template("note://{id}")]),
        {"templates": ["note://{id}"]},
    )
    assert _read(catalog, "note://7").plugin == "notes"
    _refusal(catalog, "resources/read", uri="note://all")


async def test_a_template_does_not_open_a_listed_resource_that_is_hidden() -> None:
    catalog = await _catalog(
        Offering(resources=[resource("note://all")], templates=[template("note://{id}")]),
        {"templates": ["note://{id}"]},
        {"resources": ["note://all"], "require": {"roles": ["editor"]}},
    )
    _refusal(catalog, "resources/read", uri="note://all")
    assert _read(catalog, "note://all", caller(roles=["editor"])).inner == "note://all"


async def test_whatever_covers_a_uri_must_be_allowed_because_the_plugin_chooses() -> None:
    catalog = await _catalog(
        Offering(templates=[template("note://{id}"), template("note://admin-{id}")]),
        {"templates": ["note://{id}"]},
        {"templates": ["note://admin-{id}"], "require": {"roles": ["admin"]}},
    )
    assert _read(catalog, "note://7").plugin == "notes"
    _refusal(catalog, "resources/read", uri="note://admin-7")
    assert _read(catalog, "note://admin-7", caller(roles=["admin"])).plugin == "notes"


async def test_a_glob_does_not_go_round_the_rule_of_a_template() -> None:
    catalog = await _catalog(
        Offering(templates=[template("note://secret/{id}")]),
        {"resources": ["note://**"]},
        {"templates": ["note://secret/{id}"], "require": {"roles": ["admin"]}},
    )
    _refusal(catalog, "resources/read", uri="note://secret/1")
    assert _read(catalog, "note://open/1").plugin == "notes"


async def test_a_template_that_no_entry_declares_shuts_what_it_covers() -> None:
    catalog = await _catalog(
        Offering(templates=[template("note://{id}"), template("note://admin-{id}")]), {"templates": ["note://{id}"]}
    )
    assert _read(catalog, "note://7").plugin == "notes"
    _refusal(catalog, "resources/read", uri="note://admin-7")


async def test_a_uri_declared_by_name_is_read_though_only_a_template_makes_it() -> None:
    offering = Offering(templates=[template("note://{id}")])
    catalog = await _catalog(offering, {"resources": ["note://welcome", "other://welcome"]})
    assert _read(catalog, "note://welcome").capability.name == "note://welcome"
    _refusal(catalog, "resources/read", uri="note://7")
    _refusal(catalog, "resources/read", uri="other://welcome")


async def test_a_read_that_two_plugins_could_answer_goes_to_none() -> None:
    plugins = Plugins(one=Offering(templates=[template("note://{id}")]), two=Offering(resources=[resource("note://1")]))
    entries = [{"from": "one", "templates": ["note://{id}"]}, {"from": "two", "resources": ["note://*"]}]
    catalog = await House(plugins, {"main": server(*entries)}).catalogs.of("main", caller())
    assert _read(catalog, "note://1").plugin == "two"
    _refusal(catalog, "resources/read", uri="note://2")


async def test_a_uri_that_two_plugins_list_stays_shut_whatever_covers_it() -> None:
    plugins = Plugins(
        one=Offering(resources=[resource("note://1")], templates=[template("note://{id}")]),
        two=Offering(resources=[resource("note://1")]),
    )
    entries = [
        {"from": "one", "resources": ["note://1"], "templates": ["note://{id}"]},
        {"from": "two", "resources": ["note://1"]},
    ]
    catalog = await House(plugins, {"main": server(*entries)}).catalogs.of("main", caller())
    _refusal(catalog, "resources/read", uri="note://1")
    assert _read(catalog, "note://2").plugin == "one"


async def test_a_template_that_two_plugins_offer_opens_nothing() -> None:
    plugins = Plugins(
        one=Offering(templates=[template("note://{id}"), template("note://{+path}")]),
        two=Offering(templates=[template("note://{id}")]),
    )
    entries = [{"from": "one", "templates": ["**"]}, {"from": "two", "templates": ["**"]}]
    catalog = await House(plugins, {"main": server(*entries)}).catalogs.of("main", caller())
    _refusal(catalog, "resources/read", uri="note://1")
    assert _read(catalog, "note://1/2").capability.name == "note://{+path}"


# --- completion --------------------------------------------------------------------------------------------


async def test_a_completion_takes_the_right_to_what_it_completes() -> None:
    offering = Offering(
        prompts=[prompt("open"), prompt("edit")],
        templates=[template("note://{id}"), template("audit://{id}")],
        completions=True,
    )
    editors = {"require": {"roles": ["editor"]}}
    catalog = await _catalog(
        offering,
        {"prompts": ["open"], "templates": ["note://{id}"]},
        {"prompts": ["edit"], "templates": ["audit://{id}"], **editors},
    )
    for ref in ({"type": "ref/prompt", "name": "open"}, {"type": "ref/resource", "uri": "note://{id}"}):
        assert catalog.resolve(call("completion/complete", ref=ref), caller()).params({"ref": ref}) == {"ref": ref}
    assert (
        catalog.resolve(call("completion/complete", ref={"type": "ref/resource", "uri": "note://7"}), caller()).inner
        == "note://7"
    )
    for ref in (
        {"type": "ref/prompt", "name": "edit"},
        {"type": "ref/prompt", "name": "none"},
        {"type": "ref/resource", "uri": "audit://{id}"},
        {"type": "ref/resource", "uri": "audit://7"},
        {"type": "ref/resource", "uri": "none://{id}"},
    ):
        _refusal(catalog, "completion/complete", ref=ref)
    hidden = _refusal(catalog, "completion/complete", ref={"type": "ref/prompt", "name": "edit"})
    assert hidden == _refusal(catalog, "completion/complete", ref={"type": "ref/prompt", "name": "none"})


# --- what is advertised ------------------------------------------------------------------------------------


async def test_only_what_could_be_served_is_advertised() -> None:
    offering = Offering(tools=[tool("a")], resources=[resource("note://1")], prompts=[prompt("p")], completions=True)
    assert (await _catalog(offering, {"tools": ["a"]})).offered(caller()) == {"tools"}
    everything = await _catalog(offering, {"tools": ["*"], "resources": ["**"], "prompts": ["*"]})
    assert everything.offered(caller()) == {"tools", "resources", "prompts", "completions"}
    assert (await _catalog(Offering(), {"tools": ["*"], "resources": ["**"]})).offered(caller()) == frozenset()


async def test_hidden_things_are_not_advertised_and_step_up_ones_are() -> None:
    offering = Offering(tools=[tool("a")], prompts=[prompt("p")])
    catalog = await _catalog(
        offering,
        {"tools": ["a"], "require": {"scopes": ["a"]}},
        {"prompts": ["p"], "require": {"roles": ["editor"]}},
    )
    assert catalog.offered(caller()) == {"tools"}
    assert catalog.offered(caller(roles=["editor"])) == {"tools", "prompts"}


async def test_what_is_declared_of_a_plugin_that_is_away_is_advertised() -> None:
    offering = Offering(tools=[tool("a")])
    offering.fail()
    catalog = await _catalog(offering, {"tools": ["a"], "prompts": ["p"]})
    assert catalog.list("tools/list", caller()) == []
    assert catalog.offered(caller()) == {"tools", "prompts"}


def test_a_repr_shows_no_definition() -> None:
    from rowgate.policy.capability import Capability
    from rowgate.policy.rules import Requirement

    shown = repr(Capability("tool", "notes", "a", "a", Requirement(), {"description": "internal words"}))
    assert "internal words" not in shown
