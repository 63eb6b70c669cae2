from __future__ import annotations

import json
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from rowgate.observe.events import CatalogLoaded, Event, GatewayChanged, KeysRefreshed
from rowgate.observe.health import Health, internal_app
from rowgate.observe.metrics import Metrics

ISSUER = "https://project.supabase.co/auth/v1"
SERVING = GatewayChanged("serving")
KEYS = KeysRefreshed(ISSUER, "ok", 2)
PLUGIN = CatalogLoaded("notes", "ok", 4)
JWKS = b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA","kid":"k1"}]}'

Client = TestClient[web.Request, web.Application]


def after(*events: Event) -> Health:
    health = Health(issuers=[ISSUER], required_plugins=["notes"])
    for event in events:
        health.emit(event)
    return health


def missing(health: Health) -> list[str]:
    ready, body = health.ready()
    assert ready == (not body["missing"]) == body["ready"]
    return cast("list[str]", body["missing"])


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], ["gateway", f"keys:{ISSUER}", "plugin:notes"]),
        ([SERVING], [f"keys:{ISSUER}", "plugin:notes"]),
        ([SERVING, KEYS], ["plugin:notes"]),
        ([SERVING, KEYS, PLUGIN], []),
        ([SERVING, KEYS, CatalogLoaded("notes", "partial", 3)], []),
        ([SERVING, KeysRefreshed(ISSUER, "empty"), PLUGIN], [f"keys:{ISSUER}"]),
        ([SERVING, KeysRefreshed(ISSUER, "failed"), PLUGIN], [f"keys:{ISSUER}"]),
        ([SERVING, KEYS, KeysRefreshed(ISSUER, "failed"), PLUGIN], []),
        ([SERVING, KEYS, PLUGIN, CatalogLoaded("notes", "failed")], ["plugin:notes"]),
        ([SERVING, KEYS, PLUGIN, CatalogLoaded("notes", "failed"), PLUGIN], []),
        ([SERVING, KEYS, PLUGIN, CatalogLoaded("optional", "failed")], []),
        ([SERVING, KEYS, PLUGIN, KeysRefreshed("https://other.example", "failed")], []),
        ([SERVING, KEYS, PLUGIN, GatewayChanged("draining")], ["gateway"]),
        ([SERVING, KEYS, PLUGIN, GatewayChanged("draining"), GatewayChanged("stopped")], ["gateway"]),
    ],
)
def test_readiness_names_what_is_missing(events: list[Event], expected: list[str]) -> None:
    assert missing(after(*events)) == expected


def test_a_gateway_without_issuers_or_required_plugins_is_ready_once_it_serves() -> None:
    health = Health()
    assert missing(health) == ["gateway"]
    health.emit(SERVING)
    assert missing(health) == []


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


@pytest.fixture
def health() -> Health:
    return after()


@pytest.fixture
async def client(aiohttp_client: AiohttpClient, metrics: Metrics, health: Health) -> Client:
    return await aiohttp_client(internal_app(metrics, health, lambda: JWKS))


async def test_a_gateway_that_is_not_ready_still_lives(client: Client) -> None:
    ready = await client.get("/readyz")
    assert ready.status == 503
    assert (await ready.json())["missing"] == ["gateway", f"keys:{ISSUER}", "plugin:notes"]
    alive = await client.get("/healthz")
    assert (alive.status, await alive.json()) == (200, {"alive": True})


async def test_readiness_follows_events(client: Client, health: Health) -> None:
    for event in (SERVING, KEYS, PLUGIN):
        health.emit(event)
    assert (await client.get("/readyz")).status == 200
    health.emit(GatewayChanged("draining"))
    answer = await client.get("/readyz")
    assert answer.status == 503
    assert (await answer.json())["checks"]["gateway"] == "draining"


async def test_metrics_are_scraped(client: Client, metrics: Metrics) -> None:
    metrics.emit(KEYS)
    answer = await client.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    text = await answer.text()
    assert f'rowgate_jwks_refreshes_total{{issuer="{ISSUER}",outcome="ok"}} 1.0' in text
    assert text.endswith("# EOF\n")


async def test_the_public_keys_of_the_context_are_published(client: Client) -> None:
    answer = await client.get("/context/jwks.json")
    assert (answer.status, await answer.read()) == (200, JWKS)
    assert answer.content_type == "application/jwk-set+json"


async def test_keys_that_rotate_are_seen_without_a_restart(aiohttp_client: AiohttpClient, metrics: Metrics) -> None:
    published = [JWKS]
    client = await aiohttp_client(internal_app(metrics, Health(), lambda: published[-1]))
    published.append(b'{"keys":[]}')
    assert await (await client.get("/context/jwks.json")).read() == b'{"keys":[]}'


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/config"),
        ("GET", "/mcp"),
        ("POST", "/healthz"),
        ("DELETE", "/metrics"),
        ("GET", "/metrics/"),
        ("GET", "/context/"),
        ("GET", "/%2e%2e/%zz"),
        ("PROPFIND", "/healthz"),
    ],
)
async def test_anything_else_is_a_problem_document(client: Client, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert (answer.status, answer.content_type) == (404, "application/problem+json")
    problem: dict[str, Any] = json.loads(await answer.read())
    assert (problem["status"], problem["code"]) == (404, "RG101")
    assert path == "/" or path not in json.dumps(problem)
