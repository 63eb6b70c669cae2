"""What is judged for each server, on each request, of tokens whose signature is good."""

from __future__ import annotations

from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from multidict import CIMultiDict

from rowgate.auth import authenticators
from rowgate.auth.authenticators import Tokens
from rowgate.auth.principal import Actor
from rowgate.errors import AuthenticationError, CredentialsMissing, KeysUnavailable, TokenRefused


async def reason(door: Any, token: str) -> str:
    with pytest.raises(AuthenticationError) as caught:
        await door(token)
    error = caught.value
    assert token not in f"{error!r}{error.message}{error.data}{error.headers}"
    return error.reason


async def test_a_user_of_an_oauth_client_becomes_a_principal(door: Any, local: Any, signing: Any) -> None:
    token = local.mint(signing.ec)
    principal = await door()(token)
    assert principal.kind == "user"
    assert principal.subject == "2b6b2a5e-8a0f-4f0e-9c52-0d5a6a0e8a11"
    assert principal.client_id == "9c522a5e-8a0f-4f0e-2b6b-0d5a6a0e8a11"
    assert principal.scopes == {"email", "profile"}
    assert principal.roles == {"editor"}
    assert principal.email == "alice@example.com"
    assert principal.aal == "aal1"
    assert principal.credential == token
    assert principal.claims["app_metadata"] == {"provider": "email", "roles": ["editor"]}
    assert principal.expires_at == 1_800_003_600.0


async def test_a_principal_and_what_is_remembered_show_neither_token_nor_person(
    door: Any, local: Any, signing: Any
) -> None:
    token = local.mint(signing.ec)
    opened = door()
    shown = repr(await opened(token)) + repr(await opened.verifier.verify(token)) + repr(opened.events)
    assert token not in shown
    assert "alice@example.com" not in shown
    assert "5f0e8a11-2b6b-4f0e-9c52-2a5e8a0f0d5a" not in shown


async def test_a_request_without_credentials_is_told_to_sign_in(door: Any, local: Any) -> None:
    with pytest.raises(CredentialsMissing):
        await door().authenticator.authenticate(CIMultiDict())
    assert local.fetches == 0


@pytest.mark.parametrize("key", ["sb_publishable_abc123", "sb_secret_abc123"])
async def test_an_api_key_in_place_of_a_token_is_named_as_such(door: Any, local: Any, key: str) -> None:
    assert await reason(door(), key) == "api_key"
    assert local.fetches == 0


@pytest.mark.parametrize("role", ["anon", "service_role"])
async def test_a_legacy_api_key_is_no_user(door: Any, local: Any, signing: Any, role: str) -> None:
    legacy = {"iss": "supabase", "ref": "project", "role": role, "iat": 1_700_000_000, "exp": 2_000_000_000}
    secret = OctKey.import_key("a-legacy-secret-of-at-least-32-bytes")
    assert await reason(door(), jwt.encode({"alg": "HS256"}, legacy, secret)) == "algorithm"


@pytest.mark.parametrize("role", ["anon", "service_role", ["authenticated", "service_role"]])
@pytest.mark.parametrize("accepted", [None, ("authenticated",), ("anon", "service_role", "authenticated")])
async def test_the_roles_of_api_keys_are_refused_whatever_is_configured(
    door: Any, local: Any, signing: Any, role: Any, accepted: Any
) -> None:
    assert await reason(door(token_roles=accepted), local.mint(signing.ec, {"role": role})) == "role"


@pytest.mark.parametrize("role", ["mcp_agent", "Authenticated", "", 7, ["authenticated"], None])
async def test_another_role_is_refused(door: Any, local: Any, signing: Any, role: Any) -> None:
    assert await reason(door(), local.mint(signing.ec, {"role": role})) == "role"


async def test_a_role_is_not_asked_for_where_the_issuer_has_none(door: Any, local: Any, signing: Any) -> None:
    assert await door(token_roles=None)(local.mint(signing.ec, {"role": None}))


async def test_an_id_token_of_supabase_is_refused(door: Any, local: Any, signing: Any) -> None:
    client = "9c522a5e-8a0f-4f0e-2b6b-0d5a6a0e8a11"
    token = local.mint(signing.ec, {"role": None, "session_id": None, "aud": client, "auth_time": 1_800_000_000})
    assert await reason(door(), token) == "id_token"
    assert await reason(door(audiences=(client,)), token) == "id_token"


@pytest.mark.parametrize(
    "audience",
    ["https://mcp.example.com/mcp", "Authenticated", "authenticated ", "", [], ["other"], None, [""], "authenticate"],
)
async def test_a_token_for_somebody_else_is_refused(door: Any, local: Any, signing: Any, audience: Any) -> None:
    assert await reason(door(), local.mint(signing.ec, {"aud": audience})) == "audience"


@pytest.mark.parametrize("audience", ["b", ["b"], ["other", "b"]])
async def test_any_configured_audience_is_enough(door: Any, local: Any, signing: Any, audience: Any) -> None:
    assert await door(audiences=("a", "b"))(local.mint(signing.ec, {"aud": audience}))


@pytest.mark.parametrize("flag", [True, "true", 1, "false"])
async def test_anonymous_users_are_refused_unless_configured(door: Any, local: Any, signing: Any, flag: Any) -> None:
    token = local.mint(signing.ec, {"is_anonymous": flag})
    assert await reason(door(), token) == "anonymous_user"
    assert await door(anonymous_users=True)(token)


@pytest.mark.parametrize("client", [None, ""])
async def test_a_session_of_the_application_itself_is_refused_unless_configured(
    door: Any, local: Any, signing: Any, client: Any
) -> None:
    token = local.mint(signing.ec, {"client_id": client})
    assert await reason(door(), token) == "client_missing"
    assert (await door(require_client=False)(token)).client_id is None


async def test_a_client_may_be_named_as_authorized_party(door: Any, local: Any, signing: Any) -> None:
    principal = await door()(local.mint(signing.ec, {"client_id": None, "azp": "client"}))
    assert principal.client_id == "client"


async def test_a_token_that_the_gateway_minted_opens_no_public_endpoint(door: Any, local: Any, signing: Any) -> None:
    assert await reason(door(), local.mint(signing.ec, {"mcp": {"server": "main", "tool": "x"}})) == "minted"


async def test_the_act_chain_is_read_from_the_current_actor_back(door: Any, local: Any, signing: Any) -> None:
    act = {"sub": "agent", "client_id": "c", "act": {"sub": "scheduler", "iss": "https://i.example.com"}}
    principal = await door()(local.mint(signing.ec, {"act": act}))
    assert principal.actors == (Actor("agent", None, "c"), Actor("scheduler", "https://i.example.com", None))


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b  a"}, {"a", "b"}),
        ({"scope": ["a", "b"]}, {"a", "b"}),
        ({"scope": ["a b"]}, {"a", "b"}),
        ({"scope": ""}, set()),
        ({"scope": None}, set()),
        ({"scope": None, "scp": ["a"]}, {"a"}),
        ({"scope": "a", "scp": "b"}, {"a"}),
    ],
)
async def test_scopes_are_a_string_or_a_list(door: Any, local: Any, signing: Any, claims: Any, scopes: Any) -> None:
    assert (await door()(local.mint(signing.ec, claims))).scopes == scopes


@pytest.mark.parametrize(
    ("path", "claims", "roles"),
    [
        ("app_metadata.roles", {"app_metadata": {"roles": "editor"}}, {"editor"}),
        ("app_metadata.roles", {"app_metadata": {"roles": "two words"}}, {"two words"}),
        ("app_metadata.roles", {"app_metadata": {"roles": ["a", 7, "", None, "b"]}}, {"a", "b"}),
        ("app_metadata.roles", {"app_metadata": {"roles": {"a": 1}}}, set()),
        ("app_metadata.roles", {"app_metadata": ["roles"]}, set()),
        ("app_metadata.roles", {"app_metadata": None}, set()),
        ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, {"a"}),
        ("https://example.com/roles", {"https://example.com/roles": ["a"]}, {"a"}),
        ("groups", {"groups": ["a"]}, {"a"}),
    ],
)
async def test_roles_come_from_the_configured_claim(
    door: Any, local: Any, signing: Any, path: str, claims: Any, roles: Any
) -> None:
    assert (await door(roles_claim=path)(local.mint(signing.ec, claims))).roles == roles


async def test_what_users_write_about_themselves_gives_no_role(door: Any, local: Any, signing: Any) -> None:
    token = local.mint(signing.ec, {"app_metadata": {}, "user_metadata": {"roles": ["admin"]}})
    assert (await door()(token)).roles == frozenset()


async def test_a_token_of_another_issuer_is_refused_though_its_key_is_known(
    door: Any, local: Any, signing: Any
) -> None:
    assert await reason(door(), local.mint(signing.ec, {"iss": "https://evil.example.com"})) == "issuer"


async def test_servers_share_keys_and_judge_apart(
    trusted: Any, session: Any, clock: Any, local: Any, signing: Any
) -> None:
    doors = authenticators(
        {
            "main": Tokens((trusted(),)),
            "strict": Tokens((trusted(audiences=("https://mcp.example.com/strict",)),)),
        },
        session,
        clock=clock,
    )
    await doors.fetch_keys()
    headers = CIMultiDict({"Authorization": f"Bearer {local.mint(signing.ec)}"})
    assert await doors.by_server["main"].authenticate(headers)
    with pytest.raises(TokenRefused) as caught:
        await doors.by_server["strict"].authenticate(headers)
    assert caught.value.reason == "audience"
    assert local.fetches == 1
    assert doors.issuers_without_keys() == ()
    await doors.close()


async def test_issuers_that_verify_differently_share_nothing(trusted: Any, session: Any) -> None:
    doors = authenticators({"one": Tokens((trusted(),)), "two": Tokens((trusted(algorithms=("RS256",)),))}, session)
    assert len(doors.sources) == 2


async def test_issuers_whose_keys_are_missing_are_named(trusted: Any, session: Any, local: Any) -> None:
    local.keys = []
    doors = authenticators({"main": Tokens((trusted(),))}, session)
    await doors.fetch_keys()
    assert doors.issuers_without_keys() == ("https://project.supabase.co/auth/v1",)
    await doors.close()


async def test_without_keys_the_answer_is_503_and_no_challenge(door: Any, local: Any, signing: Any) -> None:
    local.keys = []
    with pytest.raises(KeysUnavailable) as caught:
        await door()(local.mint(signing.ec))
    assert not isinstance(caught.value, AuthenticationError)
