"""Discovery, sign-in, refresh and step-up, as the official client does them."""

from __future__ import annotations

from typing import Any

import pytest

from oauth.conftest import SignIn, connected


def scopes(request: dict[str, list[str]]) -> set[str]:
    return set(request["scope"][0].split())


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "legacy"])
async def test_the_client_needs_nothing_but_the_url(start: Any, sign_in: SignIn, mode: str) -> None:
    running = await start()
    async with connected(running.client.url, sign_in, mode=mode) as it:
        result = await it.client.call_tool("echo", {"text": "hello"})
    assert result.content[0].text == "hello"
    assert len(sign_in.asked) == 1
    assert sign_in.asked[0]["resource"] == [running.client.url]
    assert sign_in.asked[0]["code_challenge_method"] == ["S256"]
    assert "email" in scopes(sign_in.asked[0])
    assert "openid" not in scopes(sign_in.asked[0])


@pytest.mark.parametrize("metadata", ["path", "suffix"])
async def test_it_finds_the_metadata_wherever_challenges_point(start: Any, sign_in: SignIn, metadata: str) -> None:
    running = await start(lambda tree: tree["servers"]["main"].update(metadata=metadata))
    async with connected(running.client.url, sign_in) as it:
        assert (await it.client.list_tools()).tools
    fetched = [event for event in running.finished if event.route == "metadata"]
    assert fetched
    assert fetched[0].status == 200


async def test_an_expired_token_is_refreshed_without_asking_the_user(start: Any, sign_in: SignIn) -> None:
    running = await start()
    async with connected(running.client.url, sign_in) as it:
        await it.client.call_tool("echo", {"text": "1"})
        it.provider.context.token_expiry_time = 1.0
        await it.client.call_tool("echo", {"text": "2"})
        assert len(it.wallet.tokens) == 2
        assert it.wallet.tokens[0].refresh_token != it.wallet.tokens[1].refresh_token
    assert len(sign_in.asked) == 1


async def test_step_up_asks_the_user_for_the_missing_scope_and_then_goes_on(start: Any, sign_in: SignIn) -> None:
    running = await start()
    async with connected(running.client.url, sign_in) as it:
        assert "write" not in {tool.name for tool in (await it.client.list_tools()).tools}
        result = await it.client.call_tool("write", {"text": "written"})
        assert result.content[0].text == "written"
    assert len(sign_in.asked) == 2
    assert "notes:write" not in scopes(sign_in.asked[0])
    assert {"email", "notes:write"} <= scopes(sign_in.asked[1])
    assert [call.params["name"] for call in running.plugin.calls] == ["write"]


async def test_what_a_server_requires_is_asked_for_at_the_first_sign_in(start: Any, sign_in: SignIn) -> None:
    running = await start(lambda tree: tree["servers"]["main"]["scopes"].update(required=["notes:write"]))
    async with connected(running.client.url, sign_in) as it:
        assert (await it.client.list_tools()).tools
    assert len(sign_in.asked) == 1
    assert "notes:write" in scopes(sign_in.asked[0])


async def test_a_session_that_was_signed_out_cannot_refresh_and_the_user_is_asked_again(
    start: Any, sign_in: SignIn
) -> None:
    running = await start()
    async with connected(running.client.url, sign_in) as it:
        await it.client.call_tool("echo", {"text": "1"})
        sign_in.server.sign_out("alice@example.com")
        it.provider.context.token_expiry_time = 1.0
        result = await it.client.call_tool("echo", {"text": "2"})
        assert result.content[0].text == "2"
    assert len(sign_in.asked) == 2
