"""The chart through helm, and the image in a container."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.helm import CHART, Helm, installed
from deploy.image import build, missing
from rowgate import __version__

VALUES = sorted(CHART.glob("ci/*-values.yaml"))


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(installed(), tmp_path_factory.mktemp("helm"))


@pytest.fixture(params=VALUES, ids=lambda file: file.name.removesuffix("-values.yaml"))
def values(request: pytest.FixtureRequest) -> Path:
    """A file of values that the chart must serve."""
    found: Path = request.param
    return found


@pytest.fixture
def single(helm: Helm) -> Callable[..., list[dict[str, Any]]]:
    """Render the smallest of them with further values."""

    def render(**more: Any) -> list[dict[str, Any]]:
        return helm.render(CHART / "ci" / "single-values.yaml", values=more)

    return render


@pytest.fixture(scope="session")
def image() -> str:
    """Built once. Where the programs for it are not installed it is not tested, except in CI."""
    if absent := missing():
        reason = f"not installed: {', '.join(absent)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return build(__version__)
