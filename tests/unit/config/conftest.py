"""The example file and an environment that it loads with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from joserfc.jwk import OKPKey

from rowgate.config.load import Checked, check_text

ROOT = Path(__file__).parents[3]
Check = Callable[..., Checked]


@pytest.fixture(scope="session")
def signing_key() -> str:
    return json.dumps(OKPKey.generate_key("Ed25519", auto_kid=True).as_dict(private=True))


@pytest.fixture(scope="session")
def env(signing_key: str) -> dict[str, str]:
    return {
        "SUPABASE_URL": "https://acme.supabase.co",
        "SUPABASE_PUBLISHABLE_KEY": "sb_publishable_0123456789abcdef",
        "SUPABASE_SECRET_KEY": "sb_secret_0123456789abcdef",
        "SUPPLIER_CLIENT_SECRET": "0123456789abcdef",
        "SUPPLIER_JWT_SECRET": "0123456789abcdef0123456789abcdef",
        "REPORTS_API_KEY": "0123456789abcdef0123456789abcdef",
        "ROWGATE_CONTEXT_KEY": signing_key,
    }


@pytest.fixture(scope="session")
def example() -> str:
    return (ROOT / "config.example.yaml").read_text()


@pytest.fixture
def check(tmp_path: Path, env: dict[str, str]) -> Check:
    def check(text: str, **more: str) -> Checked:
        return check_text(text, {**env, **more}, tmp_path)

    return check


@pytest.fixture(scope="session")
def minimal() -> str:
    return """\
version: 1
gateway: {public_url: "https://mcp.example.com"}
supabase: {url: "https://acme.supabase.co"}
plugins:
  notes: {url: "http://127.0.0.1:9000/mcp"}
servers:
  main:
    path: /mcp
    auth: {mode: oauth}
    capabilities:
      - {from: notes, tools: [get_note]}
"""
