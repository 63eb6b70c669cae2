from __future__ import annotations

import json
from typing import Any

import pytest
from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls
from mcp.server.auth.routes import build_resource_metadata_url
from mcp.shared.auth import ProtectedResourceMetadata
from pydantic import AnyHttpUrl

from rowgate.auth.metadata import documents, metadata_url, resource, resource_url
from rowgate.config.defaults import is_supabase
from rowgate.config.models import Config
from rowgate.errors import ConfigurationError
from rowgate.supabase.project import trusted_issuers

PROJECT = "https://project.supabase.co"
CUSTOM = {"issuer": "https://id.example.com", "jwks_url": "https://id.example.com/jwks", "audience": ["notes"]}


def config(public_url: str = "https://mcp.example.com", **servers: dict[str, Any]) -> Config:
    entry = {"path": "/mcp", "auth": {"mode": "oauth"}, "capabilities": [{"from": "notes", "tools": ["*"]}]}
    return Config.model_validate(
        {
            "version": 1,
            "gateway": {"public_url": public_url},
            "supabase": {"url": PROJECT},
            "plugins": {"notes": {"url": "http://127.0.0.1:9000/mcp"}},
            "servers": {name: {**entry, **changes} for name, changes in (servers or {"main": {}}).items()},
        }
    )


def test_the_document_is_these_bytes() -> None:
    found = documents(config(main={"title": "Acme notes"}))
    assert found["/.well-known/oauth-protected-resource/mcp"].body == (
        b'{"resource":"https://mcp.example.com/mcp","authorization_servers":["https://project.supabase.co/auth/v1"],'
        b'"scopes_supported":["email"],"bearer_methods_supported":["header"],"resource_name":"Acme notes"}'
    )


def test_every_well_known_url_of_a_server_answers_alike_and_no_other_does() -> None:
    found = documents(config(main={"path": "/a/b-1/mcp"}))
    assert sorted(found) == [
        "/.well-known/oauth-protected-resource/a/b-1/mcp",
        "/a/b-1/mcp/.well-known/oauth-protected-resource",
        "/a/b-1/mcp/oauth-protected-resource",
    ]
    assert len({document.body for document in found.values()}) == 1


@pytest.mark.parametrize(
    "public_url", ["https://mcp.example.com", "http://localhost:8080", "https://h.example.com:444"]
)
@pytest.mark.parametrize("path", ["/mcp", "/a/b/mcp", "/v1.2/x_y~z"])
def test_the_sdk_finds_and_accepts_the_document(public_url: str, path: str) -> None:
    settings = config(public_url, main={"path": path})
    server = settings.servers["main"]
    url = metadata_url(settings, server)
    assert url == str(build_resource_metadata_url(AnyHttpUrl(public_url + path)))
    assert url == build_protected_resource_metadata_discovery_urls(None, public_url + path)[0]
    body = documents(settings)[url.removeprefix(public_url)].body
    assert json.loads(body)["resource"] == public_url + path == resource_url(settings, server)
    parsed = ProtectedResourceMetadata.model_validate_json(body)
    assert str(parsed.resource) == public_url + path


def test_the_challenge_names_the_url_that_the_configuration_says() -> None:
    settings = config(path={}, suffix={"path": "/other", "metadata": "suffix"})
    urls = [metadata_url(settings, server) for server in settings.servers.values()]
    assert urls == [
        "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
        "https://mcp.example.com/other/.well-known/oauth-protected-resource",
    ]
    published = documents(settings)
    assert all(url.removeprefix("https://mcp.example.com") in published for url in urls if url)


@pytest.mark.parametrize("issuer", ["https://id.example.com", "https://id.example.com/", "https://id.example.com/t/1/"])
def test_issuers_are_emitted_untouched(issuer: str) -> None:
    found = documents(config(main={"auth": {"mode": "oauth", "issuer": {**CUSTOM, "issuer": issuer}}}))
    assert {json.loads(document.body)["authorization_servers"][0] for document in found.values()} == {issuer}


def test_two_servers_lead_to_their_own_issuers() -> None:
    settings = config(one={"path": "/one"}, two={"path": "/two", "auth": {"mode": "oauth", "issuer": CUSTOM}})
    found = documents(settings)
    assert json.loads(found["/one/oauth-protected-resource"].body)["authorization_servers"] == [f"{PROJECT}/auth/v1"]
    assert json.loads(found["/two/oauth-protected-resource"].body)["authorization_servers"] == [CUSTOM["issuer"]]
    assert "/.well-known/oauth-protected-resource" not in found


def test_a_server_without_sign_in_advertises_nothing() -> None:
    settings = config(main={"auth": {"mode": "bearer"}})
    assert documents(settings) == {}
    assert metadata_url(settings, settings.servers["main"]) is None
    assert resource(settings, settings.servers["main"]).scope == ()


def test_scopes_are_left_out_when_there_are_none() -> None:
    found = documents(config(main={"auth": {"mode": "oauth", "issuer": CUSTOM}}))
    assert all("scopes_supported" not in json.loads(document.body) for document in found.values())


@pytest.mark.parametrize(
    ("auth", "advertised", "emitted"),
    [
        ({"mode": "oauth"}, ["openid", "email", "offline_access"], ["email"]),
        ({"mode": "oauth", "issuer": {**CUSTOM, "issuer": f"{PROJECT}/auth/v1"}}, ["openid", "email"], ["email"]),
        ({"mode": "oauth", "issuer": CUSTOM}, ["openid", "notes", "offline_access"], ["openid", "notes"]),
    ],
)
def test_scopes_that_give_away_too_much_are_never_advertised(auth: Any, advertised: Any, emitted: Any) -> None:
    found = documents(config(main={"auth": auth, "scopes": {"advertised": advertised}}))
    assert json.loads(found["/mcp/oauth-protected-resource"].body)["scopes_supported"] == emitted


def test_sign_in_begins_with_what_every_call_needs() -> None:
    scopes = {"required": ["notes:read"], "issuable": ["notes:read", "notes:write"]}
    settings = config(main={"auth": {"mode": "oauth", "issuer": CUSTOM}, "scopes": scopes})
    assert resource(settings, settings.servers["main"]).scope == ("notes:read",)


def test_servers_whose_documents_would_collide_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        documents(config(one={}, two={}))


def test_a_title_outside_ascii_survives() -> None:
    found = documents(config(main={"title": "Café «Ω»"}))
    assert json.loads(found["/mcp/oauth-protected-resource"].body)["resource_name"] == "Café «Ω»"


def test_the_project_is_trusted_with_its_own_users_only() -> None:
    settings = config(main={}, bearer={"path": "/b", "auth": {"mode": "bearer"}})
    (issuer,) = trusted_issuers(settings, settings.servers["main"])
    assert issuer.issuer == f"{PROJECT}/auth/v1"
    assert issuer.jwks_url == f"{PROJECT}/auth/v1/.well-known/jwks.json"
    assert (issuer.audiences, issuer.token_roles) == (("authenticated",), ("authenticated",))
    assert issuer.require_client
    assert not issuer.anonymous_users
    assert not trusted_issuers(settings, settings.servers["bearer"])[0].require_client


def test_the_project_spelt_out_as_an_issuer_still_needs_the_role_of_users() -> None:
    own = {**CUSTOM, "issuer": f"{PROJECT}/auth/v1"}
    settings = config(
        own={"auth": {"mode": "oauth", "issuer": own}}, other={"auth": {"mode": "oauth", "issuer": CUSTOM}}
    )
    assert is_supabase(settings.servers["own"].auth, settings.supabase)
    assert trusted_issuers(settings, settings.servers["own"])[0].token_roles == ("authenticated",)
    assert trusted_issuers(settings, settings.servers["other"])[0].token_roles is None


def test_a_server_without_any_issuer_is_refused() -> None:
    settings = config().model_copy(update={"supabase": None})
    with pytest.raises(ConfigurationError):
        trusted_issuers(settings, settings.servers["main"])
