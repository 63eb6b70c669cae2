"""The official suite: installed once for each lock file, run by its command line, judged by the files it writes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "conformance"
PACKAGE = Path("node_modules/@modelcontextprotocol/conformance")
RESULT_DIRECTORY = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
BASELINE = HERE / "baseline.yml"
LOCK = HERE / "package-lock.json"

INSTALL_TIMEOUT = 300
RUN_TIMEOUT = 100

Check = dict[str, Any]


@dataclass(frozen=True)
class Run:
    code: int
    output: str
    results: Path

    @cached_property
    def checks(self) -> dict[str, list[Check]]:
        """By scenario."""
        found = {}
        for file in sorted(self.results.rglob("checks.json")):
            named = RESULT_DIRECTORY.fullmatch(file.parent.name)
            assert named, f"the suite names its results in another way: {file.parent.name}"
            found[named[1]] = json.loads(file.read_text())
        return found

    def failed(self, scenario: str) -> list[str]:
        """What went wrong in one scenario, in the suite's words."""
        return [
            f"{check['id']}: {check.get('errorMessage') or check['description']}"
            for check in self.checks[scenario]
            if check["status"] == "FAILURE"
        ]

    def failures(self, scenarios: Sequence[str]) -> dict[str, list[str]]:
        return {scenario: wrong for scenario in scenarios if (wrong := self.failed(scenario))}


@dataclass(frozen=True)
class Suite:
    directory: Path
    node: str

    def scored(self, revision: str) -> list[str]:
        """The scenarios that the suite requires of a server of this revision."""
        text = (self.directory / PACKAGE / "requirements" / f"{revision}.yaml").read_text()
        return list(yaml.safe_load(text)["server"])

    async def run(self, url: str, results: Path, *options: str) -> Run:
        command = [
            self.node,
            "--import",
            (HERE / "node20.mjs").as_uri(),
            str(self.directory / PACKAGE / "dist/index.js"),
        ]
        code, output = await execute(
            *command, "server", "--url", url, "-o", str(results), *options, cwd=results, timeout=RUN_TIMEOUT
        )
        return Run(code, output, results)


async def installed(environ: Mapping[str, str] = os.environ) -> Suite:
    """Without Node the suite cannot run: on a developer's machine that is a reason to skip, in CI it is a failure."""
    path = environ.get("PATH", "")
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if node is None or npm is None:
        reason = "The MCP conformance suite needs node and npm (20 or later) on the PATH."
        if environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    directory = CACHE / hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    if not directory.exists():
        await _install(npm, directory)
    return Suite(directory, node)


async def _install(npm: str, directory: Path) -> None:
    """Complete under its final name or not there at all, also when two test runs install at the same time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="install-") as name:
        work = Path(name) / "suite"
        work.mkdir()
        for file in (LOCK, LOCK.with_name("package.json")):
            shutil.copy(file, work)
        # Nothing of the suite is built, so no package needs to run code of its own.
        options = ("--ignore-scripts", "--no-audit", "--no-fund")
        code, output = await execute(npm, "ci", *options, cwd=work, timeout=INSTALL_TIMEOUT)
        if code:
            pytest.fail(f"npm ci of the MCP conformance suite failed:\n{output}", pytrace=False)
        _publish(work, directory)


def _publish(work: Path, directory: Path) -> None:
    try:
        work.rename(directory)
    except OSError:
        if not directory.exists():
            raise


async def execute(*command: str, cwd: Path, timeout: float) -> tuple[int, str]:
    """Exit code and output. Ends the process when it takes longer than `timeout` seconds, or the test ends."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode(errors="replace")
