"""The official MCP conformance suite, with authentication on, against the gateway and a plugin as they are deployed."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from conformance.suite import BASELINE, LOCK, Suite, installed

# The first run installs the suite.
pytestmark = pytest.mark.timeout(480)

EXPECTED = {
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-sse-multiple-streams",
}


async def test_every_scenario_that_2026_07_28_requires_passes(suite: Suite, endpoint: str, tmp_path: Path) -> None:
    run = await suite.run(endpoint, tmp_path, "--requirements", "2026-07-28")
    required = suite.scored("2026-07-28")
    assert len(required) == 37
    assert [scenario for scenario in required if not run.checks.get(scenario)] == []
    assert run.failures(required) == {}
    assert run.code == 0, run.output


async def test_the_header_and_schema_scenarios_that_are_not_yet_required_pass_too(
    suite: Suite, endpoint: str, tmp_path: Path
) -> None:
    for scenario in ("http-header-validation", "http-custom-header-server-validation", "json-schema-2020-12"):
        run = await suite.run(endpoint, tmp_path, "--scenario", scenario, "--spec-version", "2026-07-28")
        assert run.checks[scenario]
        assert run.failures([scenario]) == {}
        assert run.code == 0, run.output


async def test_2025_11_25_fails_only_where_a_session_would_be_needed(
    suite: Suite, endpoint: str, tmp_path: Path
) -> None:
    assert set(yaml.safe_load(BASELINE.read_text())["server"]) == EXPECTED
    run = await suite.run(endpoint, tmp_path, "--requirements", "2025-11-25", "--expected-failures", str(BASELINE))
    required = suite.scored("2025-11-25")
    assert len(required) == 30
    assert [scenario for scenario in required if not run.checks.get(scenario)] == []
    assert run.failures([scenario for scenario in required if scenario not in EXPECTED]) == {}
    assert run.code == 0, run.output


async def test_2025_06_18_fails_only_where_a_session_would_be_needed(
    suite: Suite, endpoint: str, tmp_path: Path
) -> None:
    options = ("--suite", "all", "--spec-version", "2025-06-18", "--expected-failures", str(BASELINE))
    run = await suite.run(endpoint, tmp_path, *options)
    assert len(run.checks) == 27
    assert run.failures([scenario for scenario in run.checks if scenario not in EXPECTED]) == {}
    assert run.code == 0, run.output


async def test_the_suite_gets_in_only_by_the_token_that_the_shim_adds(gateway: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{gateway}/mcp", json={}) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


async def test_without_node_the_suite_is_skipped_by_developers_and_missed_by_ci() -> None:
    with pytest.raises(pytest.skip.Exception, match="node and npm"):
        await installed({"PATH": "/nowhere"})
    with pytest.raises(pytest.fail.Exception, match="node and npm"):
        await installed({"PATH": "/nowhere", "CI": "true"})


def test_the_lock_file_pins_every_package_by_its_hash_and_names_no_registry() -> None:
    packages = {name: it for name, it in json.loads(LOCK.read_text())["packages"].items() if name}
    assert packages["node_modules/@modelcontextprotocol/conformance"]["version"] == "0.2.0-alpha.12"
    assert [name for name, it in packages.items() if "integrity" not in it or "resolved" in it] == []
