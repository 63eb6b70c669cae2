from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from rowgate.auth.metadata import HEADERS, PREFLIGHT_HEADERS
from rowgate.edge.origin import OriginPolicy
from rowgate.errors import ConfigurationError, HostNotAllowed, OriginNotAllowed

PUBLIC = OriginPolicy(
    "https://mcp.example.com",
    ["rowgate.internal:8080", "gw.internal"],
    ["https://claude.ai", "https://Inspect.example:8443"],
)
LOCAL = OriginPolicy("http://127.0.0.1:8080", listen_is_loopback=True)
CONTAINER = OriginPolicy("http://localhost:8080", listen_is_loopback=False)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def from_origin(*origins: str) -> CIMultiDictProxy[str]:
    return headers(("Host", "mcp.example.com"), *(("Origin", origin) for origin in origins))


@pytest.mark.parametrize(
    "host",
    [
        "mcp.example.com",
        "MCP.example.com",
        "mcp.example.com:443",
        "rowgate.internal:8080",
        "gw.internal",
        "gw.internal:443",
    ],
)
def test_our_own_hosts_are_allowed(host: str) -> None:
    assert PUBLIC.check(headers(("Host", host))) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "mcp.example.com:80",
        "mcp.example.com:8443",
        "mcp.example.com.",
        "mcp.example.com:",
        "mcp.example.com:0443",
        "mcp.example.com:443:443",
        "mcp.example.com@evil.example",
        "evil.example#mcp.example.com",
        "mcp.example.com, evil.example",
        " mcp.example.com",
        "xmcp.example.com",
        "mcp.example.com.evil.example",
        "rowgate.internal",
        "gw.internal:8080",
        "localhost",
        "127.0.0.1:8080",
        "[::1]",
    ],
)
def test_any_other_host_is_misdirected(host: str) -> None:
    with pytest.raises(HostNotAllowed) as refused:
        PUBLIC.check(headers(("Host", host)))
    assert refused.value.status == 421


def test_a_missing_host_is_refused() -> None:
    with pytest.raises(HostNotAllowed):
        PUBLIC.check(headers())


def test_two_hosts_are_refused_even_if_each_is_ours() -> None:
    with pytest.raises(HostNotAllowed):
        PUBLIC.check(headers(("Host", "mcp.example.com"), ("host", "mcp.example.com")))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost:41234", "localhost"])
def test_a_gateway_on_loopback_answers_for_every_loopback_name(host: str) -> None:
    LOCAL.check(headers(("Host", host)))


@pytest.mark.parametrize(
    "host", ["evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]:8080"]
)
def test_a_rebound_name_does_not_reach_a_gateway_on_loopback(host: str) -> None:
    with pytest.raises(HostNotAllowed):
        LOCAL.check(headers(("Host", host)))


def test_a_published_container_port_answers_for_loopback_names_on_that_port_only() -> None:
    CONTAINER.check(headers(("Host", "127.0.0.1:8080")))
    with pytest.raises(HostNotAllowed):
        CONTAINER.check(headers(("Host", "127.0.0.1:9999")))


def test_a_client_that_is_no_browser_sends_no_origin_and_passes() -> None:
    assert PUBLIC.check(from_origin()) is None


@pytest.mark.parametrize("origin", ["https://claude.ai", "https://mcp.example.com", "https://inspect.example:8443"])
def test_a_configured_origin_and_our_own_are_allowed(origin: str) -> None:
    assert PUBLIC.check(from_origin(origin)) == origin


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "*",
        "https://evil.example",
        "http://claude.ai",
        "https://claude.ai:8443",
        "https://claude.ai/",
        "https://claude.ai.evil.example",
        "https://evil.example/https://claude.ai",
        "https://claude.ai https://evil.example",
        "HTTPS://CLAUDE.AI",
        "http://localhost:6274",
    ],
)
def test_any_other_origin_is_refused_and_told_no_cors(origin: str) -> None:
    with pytest.raises(OriginNotAllowed) as refused:
        PUBLIC.check(from_origin(origin))
    assert refused.value.status == 403
    assert dict(PUBLIC.response_headers(origin)) == {"Vary": "Origin"}
    with pytest.raises(OriginNotAllowed):
        PUBLIC.preflight(from_origin(origin))


def test_two_origins_are_refused_even_if_each_is_allowed() -> None:
    with pytest.raises(OriginNotAllowed):
        PUBLIC.check(from_origin("https://claude.ai", "https://claude.ai"))


def test_an_inspector_on_loopback_reaches_a_gateway_in_development() -> None:
    local = headers(("Host", "localhost:8080"), ("Origin", "http://localhost:6274"))
    assert LOCAL.check(local) == "http://localhost:6274"
    assert CONTAINER.check(local) == "http://localhost:6274"
    assert LOCAL.response_headers("http://localhost:6274")["Access-Control-Allow-Origin"] == "http://localhost:6274"


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "http://localhost.evil.example:6274", "file://"])
def test_a_foreign_page_does_not_reach_a_gateway_in_development(origin: str) -> None:
    with pytest.raises(OriginNotAllowed):
        LOCAL.check(headers(("Host", "localhost:8080"), ("Origin", origin)))


def test_a_preflight_names_methods_headers_and_the_exact_origin() -> None:
    answer = PUBLIC.preflight(from_origin("https://claude.ai"))
    assert answer["Access-Control-Allow-Origin"] == "https://claude.ai"
    assert answer["Access-Control-Allow-Methods"] == "POST, OPTIONS"
    allowed = {name.strip().lower() for name in answer["Access-Control-Allow-Headers"].split(",")}
    assert allowed >= {"authorization", "content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name"}
    assert allowed >= {"mcp-session-id", "last-event-id"}
    assert int(answer["Access-Control-Max-Age"]) > 0
    assert "Origin" in answer["Vary"]


def test_a_preflight_reflects_parameter_headers_and_nothing_else() -> None:
    answer = PUBLIC.preflight(
        headers(
            ("Host", "mcp.example.com"),
            ("Origin", "https://claude.ai"),
            ("Access-Control-Request-Headers", "authorization, Mcp-Param-Region,x-evil, mcp-param-"),
            ("Access-Control-Request-Headers", "mcp-param-a b, cookie, mcp-param-tenant.id"),
        )
    )
    allowed = [name.strip() for name in answer["Access-Control-Allow-Headers"].split(",")]
    assert allowed[-2:] == ["mcp-param-region", "mcp-param-tenant.id"]
    assert not {"x-evil", "cookie", "mcp-param-", "*"} & {name.lower() for name in allowed}


def test_a_preflight_without_an_origin_learns_the_methods() -> None:
    assert PUBLIC.preflight(from_origin())["Allow"] == "POST, OPTIONS"


def test_a_preflight_for_a_foreign_host_is_misdirected() -> None:
    with pytest.raises(HostNotAllowed):
        PUBLIC.preflight(headers(("Host", "evil.example"), ("Origin", "https://claude.ai")))


def test_an_answer_lets_its_origin_read_the_challenge() -> None:
    answer = PUBLIC.response_headers("https://claude.ai")
    assert answer["Access-Control-Allow-Origin"] == "https://claude.ai"
    exposed = {name.strip() for name in answer["Access-Control-Expose-Headers"].split(",")}
    assert exposed == {"WWW-Authenticate", "Retry-After", "X-Request-Id", "MCP-Protocol-Version"}
    assert answer["Vary"] == "Origin"


def test_credentials_are_never_allowed_and_only_metadata_is_open() -> None:
    sets = [PUBLIC.preflight(from_origin("https://claude.ai")), PUBLIC.response_headers("https://claude.ai")]
    for answer in [*sets, HEADERS, PREFLIGHT_HEADERS]:
        assert "Access-Control-Allow-Credentials" not in answer
    assert all("*" not in answer["Access-Control-Allow-Origin"] for answer in sets)
    assert PREFLIGHT_HEADERS["Access-Control-Allow-Methods"] == "GET, OPTIONS"


@pytest.mark.parametrize("origin", ["*", "null", "claude.ai", "https://claude.ai/path", "https://*.claude.ai"])
def test_a_policy_cannot_be_built_from_what_is_no_origin(origin: str) -> None:
    with pytest.raises(ConfigurationError):
        OriginPolicy("https://mcp.example.com", allowed_origins=[origin])


@given(st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_whatever_arrives_only_our_own_values_pass(hosts: list[str], origins: list[str]) -> None:
    arrived = headers(*(("Host", host) for host in hosts), *(("Origin", origin) for origin in origins))
    try:
        origin = PUBLIC.check(arrived)
    except (HostNotAllowed, OriginNotAllowed):
        return
    assert hosts[0].lower().partition(":")[0] in (
        "mcp.example.com",
        "rowgate.internal",
        "gw.internal",
    )
    assert origin is None or origin in ("https://claude.ai", "https://mcp.example.com", "https://inspect.example:8443")


@given(st.lists(st.text(st.characters(max_codepoint=0x2FF)), max_size=4))
def test_a_reflected_name_is_a_token_whatever_was_asked(asked: list[str]) -> None:
    answer = PUBLIC.preflight(
        headers(
            ("Host", "mcp.example.com"),
            ("Origin", "https://claude.ai"),
            *(("Access-Control-Request-Headers", f"mcp-param-{name}, {name}") for name in asked),
        )
    )
    allowed = answer["Access-Control-Allow-Headers"]
    assert allowed.isascii()
    assert allowed.isprintable()
    reflected = allowed.split(", ")[8:]
    assert all(name.startswith("mcp-param-") and not set(name) & set(' ",;:/()<>@[]{}=?\\') for name in reflected)
    assert len(reflected) <= 64
