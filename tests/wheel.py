"""Build the wheel and install it into an environment of its own: `python tests/wheel.py DIR` prints its interpreter.

What the wheel declares as its dependencies is linked from the environment that runs this, so no network is needed.
What it does not declare is not there, and neither is the checkout.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]


def build(directory: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    (wheel,) = directory.glob("rowgate-*.whl")
    return wheel


EXTRAS = frozenset({"postgres", "redis"})
"""What the suite's core needs of the wheel's extras."""


def install(wheel: Path, directory: Path, extras: frozenset[str] = frozenset()) -> Path:
    """The interpreter of a new virtual environment in `directory` that has the wheel with `extras`."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    python = directory / "bin" / "python"
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    subprocess.run([str(python), "-m", "pip", "install", *options, str(wheel)], check=True)
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    (installed,) = site.glob("rowgate-*.dist-info")
    for dependency in closure(Distribution.at(installed), extras):
        link(dependency, site)
    return python


def closure(root: Distribution, extras: frozenset[str]) -> list[Distribution]:
    """Everything that an installer would fetch for it here."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements(root, extras))
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        for extra in ("", *requirement.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                found[name] = distribution(name)
                assert requirement.specifier.contains(found[name].version, prereleases=True), requirement
                waiting += requirements(found[name], frozenset(requirement.extras))
    return list(found.values())


def requirements(of: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in of.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield requirement


def link(dependency: Distribution, site: Path) -> None:
    for entry in {file.parts[0] for file in dependency.files or ()} - {"..", "__pycache__", "bin"}:
        target = site / entry
        if not target.exists():
            target.symlink_to(Path(str(dependency.locate_file(entry))))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} DIR")
    target = Path(sys.argv[1]).resolve()
    print(install(build(target), target / "venv", EXTRAS))
