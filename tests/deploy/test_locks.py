"""What the image installs is what the project asks for, all of it, by hashes and from no registry in particular."""

from __future__ import annotations

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.helm import ROOT

LOCKS = ROOT / "requirements"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"].get("optional-dependencies", {})


def pinned(lock: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PINNED.findall((LOCKS / lock).read_text())}


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("runtime.txt", PROJECT["project"]["dependencies"]),
        ("build.txt", PROJECT["build-system"]["requires"]),
        # Who runs the image cannot add to it what a setting needs. The demo is for trying out.
        ("runtime.txt", [it for extra, needs in EXTRAS.items() if extra != "demo" for it in needs]),
    ],
)
def test_a_lock_has_every_dependency_in_a_version_that_is_allowed(lock: str, wanted: list[str]) -> None:
    found = pinned(lock)
    for text in wanted:
        requirement = Requirement(text)
        assert requirement.specifier.contains(found[canonicalize_name(requirement.name)]), text


@pytest.mark.parametrize("lock", ["runtime.txt", "build.txt"])
def test_what_is_shipped_is_what_was_tested(lock: str) -> None:
    assert pinned(lock).items() <= pinned("dev.txt").items()


@pytest.mark.parametrize("lock", sorted(file.name for file in LOCKS.glob("*.txt")))
def test_a_lock_has_hashes_and_names_no_host(lock: str) -> None:
    text = (LOCKS / lock).read_text()
    assert "://" not in text
    for entry in re.split(r"\n(?=[A-Za-z0-9])", text):
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
