"""What clients of the 2025 revisions get: only fields, content and schemas that they know."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft7Validator
from mcp_types.methods import validate_server_result

from flow.conftest import Running
from flow.plugin import Received, tool

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"point": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}], "items": False}},
    "properties": {"at": {"$ref": "#/$defs/point", "description": "where"}, "a": {}, "b": {}},
    "dependentRequired": {"a": ["b"]},
    "unevaluatedProperties": False,
}


async def tools(running: Running, version: str) -> dict[str, Any]:
    reply = await running.client.legacy("tools/list", token=running.issuer.token(), version=version)
    return {it["name"]: it for it in reply.result["tools"]}


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_schemas_are_draft_07_before_2025_11_25_and_mean_the_same(start: Any, notes: Any, version: str) -> None:
    notes.tools[:] = [tool("echo", inputSchema=SCHEMA)]
    schema = (await tools(await start(), version))["echo"]["inputSchema"]
    Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    valid = Draft7Validator(schema).is_valid
    assert valid({"at": [1, 2], "a": 1, "b": 2})
    assert not valid({"at": [1, 2, 3]})
    assert not valid({"at": ["x", 2]})
    assert not valid({"a": 1})


@pytest.mark.parametrize("version", ["2025-11-25"])
async def test_schemas_are_left_alone_from_2025_11_25(start: Any, notes: Any, version: str) -> None:
    notes.tools[:] = [tool("echo", inputSchema=SCHEMA)]
    assert (await tools(await start(), version))["echo"]["inputSchema"] == SCHEMA


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_structured_content_that_is_no_object_is_wrapped_with_its_schema(
    start: Any, notes: Any, version: str
) -> None:
    output = {"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}
    notes.tools[:] = [tool("echo", outputSchema=output)]
    running = await start()

    async def numbers(it: Received) -> dict[str, Any]:
        return it.text("[1, 2]", structuredContent=[1, 2])

    running.plugin.answers["tools/call"] = numbers
    listed = (await tools(running, version))["echo"]["outputSchema"]
    params = {"name": "echo", "arguments": {}}
    reply = await running.client.legacy("tools/call", params, token=running.issuer.token(), version=version)
    assert reply.result["structuredContent"] == {"result": [1, 2]}
    assert listed["type"] == "object"
    if version == "2025-11-25":
        from jsonschema import Draft202012Validator

        Draft202012Validator(listed).validate(reply.result["structuredContent"])
    else:
        Draft7Validator(listed).validate(reply.result["structuredContent"])
    modern = await running.client.call("echo", token=running.issuer.token())
    assert modern.result["structuredContent"] == [1, 2]


async def test_a_link_becomes_text_for_2025_03_26_only(running: Running) -> None:
    link = {"type": "resource_link", "uri": "note://1", "name": "One"}

    async def linked(it: Received) -> dict[str, Any]:
        return it.result(content=[link])

    running.plugin.answers["tools/call"] = linked
    params, token = {"name": "echo", "arguments": {}}, running.issuer.token()
    old = await running.client.legacy("tools/call", params, token=token, version="2025-03-26")
    assert old.result["content"] == [{"type": "text", "text": "One: note://1"}]
    newer = await running.client.legacy("tools/call", params, token=token, version="2025-06-18")
    assert newer.result["content"] == [link]


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
async def test_lists_are_valid_in_the_callers_revision_and_carry_no_modern_field(
    running: Running, version: str, method: str
) -> None:
    reply = await running.client.legacy(method, token=running.issuer.token(), version=version)
    validate_server_result(method, version, reply.result)
    assert not {"resultType", "ttlMs", "cacheScope"} & set(reply.result)
    assert "_meta" not in reply.result


async def test_a_conversion_for_one_client_leaves_the_shared_catalog_alone(start: Any, notes: Any) -> None:
    notes.tools[:] = [tool("echo", inputSchema=SCHEMA, outputSchema={"type": "array"})]
    running = await start()
    await tools(running, "2025-03-26")
    reply = await running.client.modern("tools/list", token=running.issuer.token())
    assert reply.result["tools"][0]["inputSchema"] == SCHEMA
    assert reply.result["tools"][0]["outputSchema"] == {"type": "array"}


async def test_a_legacy_call_asks_the_plugin_for_log_messages_that_such_clients_expect(running: Running) -> None:
    await running.client.legacy("tools/call", {"name": "echo", "arguments": {}}, token=running.issuer.token())
    assert running.plugin.calls[-1].params["_meta"]["io.modelcontextprotocol/logLevel"] == "info"
    await running.client.call("echo", token=running.issuer.token())
    assert "io.modelcontextprotocol/logLevel" not in running.plugin.calls[-1].params["_meta"]
