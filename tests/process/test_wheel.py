"""What is published: the wheel holds everything that runs and nothing else, and works where no checkout is."""

from __future__ import annotations

import subprocess
import zipfile
from configparser import ConfigParser
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from packaging.requirements import Requirement

import rowgate
import wheel
from flow.client import Client
from flow.issuer import ALICE, Issuer
from process.conftest import CONTEXT_KEY_TEXT
from process.gateway import environment, serve

pytestmark = pytest.mark.wheel

PACKAGES = {
    "rowgate": wheel.ROOT / "gateway" / "rowgate",
    "rowgate_plugin": wheel.ROOT / "plugins" / "rowgate_plugin",
    "team_notes": wheel.ROOT / "plugins" / "examples" / "team_notes",
}


@dataclass(frozen=True)
class Installed:
    archive: Path
    python: Path

    def text(self, name: str) -> str:
        with zipfile.ZipFile(self.archive) as opened:
            (found,) = (it for it in opened.namelist() if it.endswith(f".dist-info/{name}"))
            return opened.read(found).decode()

    @property
    def names(self) -> set[str]:
        with zipfile.ZipFile(self.archive) as opened:
            return set(opened.namelist())

    @property
    def metadata(self) -> Message:
        return Parser().parsestr(self.text("METADATA"))

    def run(self, *arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *arguments]
        env = environment(**env)
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    directory = tmp_path_factory.mktemp("wheel")
    archive = wheel.build(directory)
    return Installed(archive, wheel.install(archive, directory / "venv"))


def test_every_file_of_the_three_packages_is_in_the_wheel_and_no_other(installed: Installed) -> None:
    expected = {
        f"{name}/{path.relative_to(source).as_posix()}"
        for name, source in PACKAGES.items()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in installed.names if ".dist-info/" not in name} == expected


@pytest.mark.parametrize(
    "name",
    [
        "rowgate/py.typed",
        "rowgate/demo/bootstrap.sql",
        "rowgate/demo/application/consent.html",
        "rowgate/demo/application/consent.css",
        "rowgate/demo/application/consent.js",
        "rowgate_plugin/py.typed",
        "rowgate_plugin/contract.py",
        "rowgate_plugin/vectors.json",
        "team_notes/__main__.py",
        "team_notes/sql/0001_team_notes.sql",
    ],
)
def test_what_is_no_module_but_needed_is_in_the_wheel(installed: Installed, name: str) -> None:
    assert name in installed.names


def test_the_metadata_says_what_it_is_and_what_it_needs(installed: Installed) -> None:
    metadata = installed.metadata
    assert (metadata["Name"], metadata["Version"]) == ("rowgate", rowgate.__version__)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("MIT", "LICENSE")
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["demo", "postgres", "redis"]
    needed = {it.name: it for it in map(Requirement, metadata.get_all("Requires-Dist") or ())}
    assert str(needed["mcp"].specifier).startswith("==")
    assert all(it.specifier for it in needed.values()), "a dependency without bounds"
    assert str(needed["redis"].marker) == 'extra == "redis"'
    assert "pytest" not in needed
    assert (wheel.ROOT / "LICENSE").read_text() == installed.text("licenses/LICENSE")


def test_the_wheel_brings_the_command(installed: Installed, tmp_path: Path) -> None:
    scripts = ConfigParser()
    scripts.read_string(installed.text("entry_points.txt"))
    assert dict(scripts["console_scripts"]) == {"rowgate": "rowgate.cli:main"}
    script = [str(installed.python.with_name("rowgate")), "--version"]
    done = subprocess.run(script, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == f"rowgate, version {rowgate.__version__}\n"


def test_nothing_is_imported_from_the_checkout(installed: Installed, tmp_path: Path) -> None:
    program = (
        "import rowgate, rowgate_plugin, team_notes as t; print(rowgate.__file__, rowgate_plugin.__file__, t.__file__)"
    )
    done = installed.run("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    site = installed.python.parents[1]
    assert [Path(path).is_relative_to(site) for path in done.stdout.split()] == [True, True, True]
    missing = installed.run("-c", "import pytest", cwd=tmp_path)
    assert "ModuleNotFoundError" in missing.stderr


OF_EXTRAS = ("rowgate/demo/", "rowgate/limits/postgres.py", "rowgate/limits/redis.py")


def test_every_module_is_imported_with_the_declared_dependencies_alone(installed: Installed, tmp_path: Path) -> None:
    """Except those of an extra, and the modules that are run and not imported."""
    program = "import sys, importlib\nfor name in sys.argv[1:]: importlib.import_module(name)"
    modules = [
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in sorted(installed.names)
        if name.endswith(".py") and not name.startswith(OF_EXTRAS) and not name.endswith("__main__.py")
    ]
    assert len(modules) > 80
    done = installed.run("-W", "error", "-c", program, *modules, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_demo_without_its_extra_says_how_to_get_it(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("-m", "rowgate", "demo", cwd=tmp_path)
    assert done.returncode not in (0, 1)
    assert "rowgate[demo]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_configuration_is_valid_for_the_wheel(installed: Installed, tmp_path: Path) -> None:
    done = installed.run(
        *("-m", "rowgate", "config", "validate", str(wheel.ROOT / "config.example.yaml")),
        cwd=tmp_path,
        SUPABASE_URL="https://project.supabase.co",
        SUPABASE_PUBLISHABLE_KEY="sb_publishable_0123456789abcdef",
        SUPABASE_SECRET_KEY="sb_secret_0123456789abcdef",
        SUPPLIER_CLIENT_SECRET="0123456789abcdef",
        SUPPLIER_JWT_SECRET="0123456789abcdef0123456789abcdef",
        REPORTS_API_KEY="0123456789abcdef0123456789abcdef",
        ROWGATE_CONTEXT_KEY=CONTEXT_KEY_TEXT,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith("config.example.yaml: valid\n")


async def test_the_wheel_serves_a_call(
    installed: Installed,
    tree: dict[str, Any],
    session: aiohttp.ClientSession,
    client: Client,
    tokens: Issuer,
    tmp_path: Path,
) -> None:
    env = {"CONTEXT_KEY": CONTEXT_KEY_TEXT}
    async with serve(tree, tmp_path, env=env, session=session, python=str(installed.python)) as gateway:
        await gateway.ready()
        names = [tool["name"] for tool in (await client.modern("tools/list", token=tokens.token())).result["tools"]]
        assert names == ["echo", "whoami"]
        assert (await client.call("whoami", token=tokens.token())).text == ALICE
        assert await gateway.stop() == 0
        assert gateway.stderr == []
