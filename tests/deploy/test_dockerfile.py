"""The Dockerfile, as far as it can be judged without building it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from deploy.helm import ROOT


def test_the_dockerfile_has_no_finding_of_the_linter() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_everything_that_the_wheel_needs_is_sent_to_the_builder_and_nothing_else() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sources = build["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    first, everything, *lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert (first[0], everything) == ("#", "*")
    admitted = {line[1:] for line in lines if line.startswith("!")}
    files = {"LICENSE", "README.md", "pyproject.toml", "requirements/build.txt", "requirements/runtime.txt"}
    assert admitted == files | {"gateway" if source == "gateway/rowgate" else source for source in sources}
