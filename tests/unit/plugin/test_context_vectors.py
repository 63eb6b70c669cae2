from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, get_args

import pytest

from rowgate_plugin.contract import ContextError, ContextVerifier, Reason, secret_key
from rowgate_plugin.keys import read_jwks
from rowgate_plugin.vectors import PATH, members, render

VECTORS: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))


def verifier(now: int) -> ContextVerifier:
    keys = read_jwks(json.dumps(VECTORS["jwks"]), origin="the vectors", symmetric=False)
    keys.keys.append(secret_key(VECTORS["secret"]))
    return ContextVerifier(
        keys,
        audience=VECTORS["audience"],
        issuer=VECTORS["issuer"],
        leeway=VECTORS["leeway"],
        clock=lambda: now,
    )


def request(case: dict[str, Any]) -> dict[str, Any]:
    return {"body": case["body"].encode(), "authorization": case["authorization"]}


def test_the_file_is_what_the_code_says() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "rowgate_plugin.vectors"], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert printed.stdout == render() == PATH.read_text(encoding="utf-8"), (
        "refresh it: python -m rowgate_plugin.vectors > plugins/rowgate_plugin/vectors.json"
    )


@pytest.mark.parametrize("case", VECTORS["valid"], ids=lambda case: case["name"])
def test_a_valid_vector_gives_its_context(case: dict[str, Any]) -> None:
    context = verifier(case["now"]).verify(case["token"], **request(case))
    assert members(context) == case["context"]


@pytest.mark.parametrize("case", VECTORS["invalid"], ids=lambda case: f"{case['reason']}: {case['name']}")
def test_an_invalid_vector_is_refused_for_its_reason(case: dict[str, Any]) -> None:
    at = verifier(case["now"])
    if case.get("verified_before"):
        at.verify(case["token"], **request(case))
    with pytest.raises(ContextError) as caught:
        at.verify(case["token"], **request(case))
    assert caught.value.reason == case["reason"]


def test_every_reason_has_a_vector() -> None:
    # Whether a memory is full is a matter of one process, not of one request.
    assert {case["reason"] for case in VECTORS["invalid"]} == set(get_args(Reason)) - {"capacity"}


def test_the_vectors_hold_no_private_key() -> None:
    assert all("d" not in key for key in VECTORS["jwks"]["keys"])
