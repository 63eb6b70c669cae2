"""The plugin that the official conformance suite expects, on the official SDK and `rowgate_plugin`.

Every name, text and key in here is fixed by the suite (0.2.0-alpha.12); what the suite does not look at is left out.
`python fixture.py` serves it, configured by the environment like any other plugin.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Annotated, Any

import mcp.types as t
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from pydantic import Field

from rowgate_plugin import serve

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

READ_ONLY = t.ToolAnnotations(read_only_hint=True)

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def json_schema_2020_12_tool() -> str:
    return "ok"


_VERBATIM = Tool.from_function(
    json_schema_2020_12_tool,
    title="JSON Schema 2020-12",
    description="Its input schema must arrive keyword by keyword.",
    annotations=READ_ONLY,
).model_copy(update={"parameters": SCHEMA_2020_12})

server = MCPServer("conformance", version="1", tools=[_VERBATIM])


def tool(title: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return server.tool(title=title, description=f"{title}.", annotations=READ_ONLY)


def text(value: str) -> t.TextContent:
    return t.TextContent(type="text", text=value)


def image() -> t.ImageContent:
    return t.ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, body: str) -> t.EmbeddedResource:
    contents = t.TextResourceContents(uri=uri, mime_type=mime_type, text=body)
    return t.EmbeddedResource(type="resource", resource=contents)


# --- content -----------------------------------------------------------------------------------------------


# The suite calls the first tool of the list with `{}`.
@tool("Text")
async def test_simple_text() -> str:
    return "This is a simple text response for testing."


@tool("Image")
async def test_image_content() -> list[t.ImageContent]:
    return [image()]


@tool("Audio")
async def test_audio_content() -> list[t.AudioContent]:
    return [t.AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@tool("Embedded resource")
async def test_embedded_resource() -> list[t.EmbeddedResource]:
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@tool("Mixed content")
async def test_multiple_content_types() -> list[t.TextContent | t.ImageContent | t.EmbeddedResource]:
    body = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", "application/json", body)
    return [text("Multiple content types test:"), image(), resource]


@tool("Error")
async def test_error_handling() -> t.CallToolResult:
    return t.CallToolResult(content=[text("This tool intentionally returns an error for testing")], is_error=True)


@tool("Parameter in a header")
async def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "none",  # noqa: PT028
) -> str:
    return region


# --- notifications on the way ------------------------------------------------------------------------------


async def log(ctx: Context) -> str:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(message)
    return "logged"


@tool("Log messages")
async def test_tool_with_logging(ctx: Context) -> str:
    return await log(ctx)


@tool("Log messages only at a level that was asked for")
async def test_logging_tool(ctx: Context) -> str:
    return await log(ctx)


@tool("Progress")
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
    return "done"


@tool("No stream that could be polled")
async def test_reconnection() -> str:
    return "reconnected"


@tool("Change of the tools")
async def test_trigger_tool_change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "ok"


@tool("Change of the prompts")
async def test_trigger_prompt_change(ctx: Context) -> str:
    await ctx.notify_prompts_changed()
    return "ok"


# --- questions to the client -------------------------------------------------------------------------------

Asks = t.InputRequiredResult


def elicit(message: str, **properties: Any) -> t.ElicitRequest:
    schemas = {name: {"type": value} if isinstance(value, str) else value for name, value in properties.items()}
    requested = {"type": "object", "properties": schemas, "required": list(schemas)}
    return t.ElicitRequest(params=t.ElicitRequestFormParams(message=message, requested_schema=requested))


def sample(question: str, max_tokens: int = 100) -> t.CreateMessageRequest:
    messages = [t.SamplingMessage(role="user", content=text(question))]
    return t.CreateMessageRequest(params=t.CreateMessageRequestParams(messages=messages, max_tokens=max_tokens))


def answered(ctx: Context, *keys: str) -> bool:
    return all((ctx.input_responses or {}).get(key) for key in keys)


def content(ctx: Context, key: str) -> dict[str, Any] | None:
    """What the user filled in, or None while that was not yet answered by a form."""
    answer = (ctx.input_responses or {}).get(key)
    return dict(answer.content or {}) if isinstance(answer, t.ElicitResult) else None


def require_capability(ctx: Context, name: str) -> None:
    if getattr(ctx.client_capabilities, name, None) is None:
        raise MCPError(
            code=t.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message=f"This needs a client with {name}",
            data={"requiredCapabilities": {name: {}}},
        )


@tool("Needs sampling")
async def test_missing_capability(ctx: Context) -> str:
    require_capability(ctx, "sampling")
    return "ok"


@tool("No request on the stream")
async def test_streaming_elicitation() -> str | Asks:
    return Asks(input_requests={"q": elicit("q?", a="string")})


@tool("Ask the user")
async def test_input_required_result_elicitation(ctx: Context) -> str | Asks:
    if (given := content(ctx, "user_name")) is not None:
        return f"Hello, {given.get('name')}!"
    return Asks(input_requests={"user_name": elicit("What is your name?", name="string")})


@tool("Ask the model")
async def test_input_required_result_sampling(ctx: Context) -> str | Asks:
    if answered(ctx, "capital_question"):
        return "sampled"
    return Asks(input_requests={"capital_question": sample("What is the capital of France?")})


@tool("Ask for roots")
async def test_input_required_result_list_roots(ctx: Context) -> str | Asks:
    if answered(ctx, "client_roots"):
        return "rooted"
    return Asks(input_requests={"client_roots": t.ListRootsRequest()})


@tool("Ask with state")
async def test_input_required_result_request_state(ctx: Context) -> str | Asks:
    if answered(ctx, "confirm") and ctx.request_state == "nonce":
        return "state-ok"
    return Asks(input_requests={"confirm": elicit("Please confirm", ok="boolean")}, request_state="nonce")


@tool("Ask for three things at once")
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | Asks:
    if answered(ctx, "user_name", "greeting", "client_roots"):
        return "all"
    requests = {
        "user_name": elicit("What is your name?", name="string"),
        "greeting": sample("Generate a greeting"),
        "client_roots": t.ListRootsRequest(),
    }
    return Asks(input_requests=requests, request_state="asked")


@tool("Ask twice")
async def test_input_required_result_multi_round(ctx: Context) -> str | Asks:
    if ctx.request_state == "second" and answered(ctx, "step2"):
        return "done"
    if ctx.request_state == "first" and answered(ctx, "step1"):
        return Asks(input_requests={"step2": elicit("Step 2", color="string")}, request_state="second")
    return Asks(input_requests={"step1": elicit("Step 1", name="string")}, request_state="first")


@tool("State that nobody may change")
async def test_input_required_result_tampered_state(ctx: Context) -> str | Asks:
    if ctx.request_state is None:
        return Asks(input_requests={"confirm": elicit("ok?", ok="boolean")}, request_state="sealed")
    return "state-ok"


@tool("Ask only what the client can answer")
async def test_input_required_result_capabilities(ctx: Context) -> Asks:
    can = ctx.client_capabilities
    requests: dict[str, Any] = {}
    if can is not None and can.sampling is not None:
        requests["sampled"] = sample("Hi")
    if can is not None and can.elicitation is not None:
        requests["elicited"] = elicit("name?", name="string")
    return Asks(input_requests=requests, request_state="asked")


# --- the same, as the 2025 revisions ask for it ------------------------------------------------------------
# There a server sends its question on the stream, which takes a session. These ask the modern way, so that a client
# of 2025 gets what such a plugin really gives it.


@tool("Ask the model, 2025")
async def test_sampling(prompt: str, ctx: Context) -> str | Asks:
    require_capability(ctx, "sampling")
    return "sampled" if answered(ctx, "q") else Asks(input_requests={"q": sample(prompt)})


@tool("Ask the user, 2025")
async def test_elicitation(message: str, ctx: Context) -> str | Asks:
    require_capability(ctx, "elicitation")
    return "elicited" if answered(ctx, "q") else Asks(input_requests={"q": elicit(message, username="string")})


@tool("Ask the user with defaults, 2025")
async def test_elicitation_sep1034_defaults(ctx: Context) -> str | Asks:
    require_capability(ctx, "elicitation")
    asked = elicit("Defaults", name={"type": "string", "default": "John Doe"}, age={"type": "integer", "default": 30})
    return "elicited" if answered(ctx, "q") else Asks(input_requests={"q": asked})


@tool("Ask the user to choose, 2025")
async def test_elicitation_sep1330_enums(ctx: Context) -> str | Asks:
    require_capability(ctx, "elicitation")
    asked = elicit("Enums", untitledSingle={"type": "string", "enum": ["option1", "option2"]})
    return "elicited" if answered(ctx, "q") else Asks(input_requests={"q": asked})


# --- resources and prompts ---------------------------------------------------------------------------------


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "Watched resource content"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt(description="Simple.")
async def test_simple_prompt() -> list[UserMessage]:
    return [UserMessage(content=text("This is a simple prompt for testing."))]


@server.prompt(description="With arguments.")
async def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return [UserMessage(content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]


@server.prompt(description="With a resource in it.")
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    return [
        UserMessage(content=embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
        UserMessage(content=text("Please process the embedded resource above.")),
    ]


@server.prompt(description="With an image in it.")
async def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(content=image()), UserMessage(content=text("Please analyze the image above."))]


@server.prompt(description="Asks before it answers.")
async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | Asks:
    if (given := content(ctx, "user_context")) is not None:
        return [UserMessage(content=text(str(given)))]
    question = elicit("What context should the prompt use?", context="string")
    return Asks(input_requests={"user_context": question})


@server.completion()
async def complete(
    ref: t.PromptReference | t.ResourceTemplateReference,
    argument: t.CompletionArgument,
    context: t.CompletionContext | None,
) -> t.Completion:
    found = [value for value in ("paris", "park", "party") if value.startswith(argument.value)]
    return t.Completion(values=found, total=len(found), has_more=False)


if __name__ == "__main__":
    serve(server)
