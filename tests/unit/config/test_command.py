"""`rowgate config`, as a process."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
EXAMPLE = str(ROOT / "config.example.yaml")


def rowgate(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rowgate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=60)


def test_a_valid_file_exits_with_0_and_says_so(env: dict[str, str]) -> None:
    done = rowgate("config", "validate", EXAMPLE, **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"{EXAMPLE}: valid\n")


def test_an_invalid_file_exits_with_78_and_names_every_line(env: dict[str, str], tmp_path: Path, example: str) -> None:
    path = tmp_path / "config.yaml"
    broken = example.replace("path: /mcp\n", "path: mcp\n").replace("timeout: 60s\n", "timeout: 60 s\n", 1)
    path.write_text(broken)
    line = broken.split("\n").index("    timeout: 60 s") + 1
    done = rowgate("config", "validate", str(path), **env)
    assert (done.returncode, done.stdout) == (78, "")
    size, server, summary = done.stderr.splitlines()
    assert size.startswith(f"{path}:{line}:14: gateway.request.timeout: must be a duration")
    assert ": servers.main.path: must begin with /" in server
    assert summary == f"{path}: 2 errors"


def test_a_warning_is_a_finding_only_when_strict(tmp_path: Path, minimal: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(minimal.replace("mode: oauth", "mode: oauth, require_client: false"))
    relaxed = rowgate("config", "validate", str(path))
    assert relaxed.returncode == 0
    assert ":9:41: warning: servers.main.auth.require_client: accepts tokens" in relaxed.stderr
    assert rowgate("config", "validate", "--strict", str(path)).returncode == 1


def test_the_report_is_json_on_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("version: 1\ngatway: {}\n")
    done = rowgate("config", "validate", "--json", str(path))
    report = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (78, "")
    assert (report["report"], report["valid"]) == ("rowgate-config-1", False)
    unknown = next(problem for problem in report["problems"] if problem["path"] == "gatway")
    assert (unknown["line"], unknown["column"], unknown["hint"]) == (2, 1, "Did you mean gateway?")


def test_show_prints_what_is_in_force_and_no_secret(env: dict[str, str]) -> None:
    done = rowgate("config", "show", EXAMPLE, **env)
    shown = yaml.safe_load(done.stdout)
    assert done.returncode == 0
    assert shown["supabase"]["issuer"] == "https://acme.supabase.co/auth/v1"
    assert shown["gateway"]["context"] == {
        "signing_key": {"env": "ROWGATE_CONTEXT_KEY"},
        "previous_keys": [],
        "lifetime": "60s",
    }
    assert json.loads(env["ROWGATE_CONTEXT_KEY"])["d"] not in done.stdout + done.stderr


def test_what_show_prints_is_a_configuration_again(env: dict[str, str], tmp_path: Path) -> None:
    first = rowgate("config", "show", EXAMPLE, **env)
    path = tmp_path / "config.yaml"
    path.write_text(first.stdout)
    second = rowgate("config", "show", str(path), **env)
    assert (second.returncode, second.stderr, second.stdout) == (0, "", first.stdout)


def test_show_of_an_invalid_file_prints_no_configuration() -> None:
    done = rowgate("config", "show", EXAMPLE)
    assert (done.returncode, done.stdout) == (78, "")
    assert "SUPABASE_URL, which is not set" in done.stderr


@pytest.mark.parametrize("place", ["argument", "option", "environment"])
def test_the_file_is_named_by_argument_option_or_environment(place: str, tmp_path: Path, minimal: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(minimal)
    done = {
        "argument": lambda: rowgate("config", "validate", str(path), ROWGATE_CONFIG="/nowhere"),
        "option": lambda: rowgate("--config", str(path), "config", "validate", ROWGATE_CONFIG="/nowhere"),
        "environment": lambda: rowgate("config", "validate", ROWGATE_CONFIG=str(path)),
    }[place]()
    assert (done.returncode, done.stderr) == (0, f"{path}: valid\n")


def test_a_file_that_is_not_there_is_a_configuration_error() -> None:
    done = rowgate("config", "validate", "/nowhere/config.yaml")
    assert done.returncode == 78
    assert done.stderr.startswith("/nowhere/config.yaml:1:1: cannot be read")


def test_an_unknown_option_is_a_usage_error() -> None:
    assert rowgate("config", "validate", "--sloppy").returncode == 2
    assert rowgate("confg").returncode == 2


def test_validating_does_not_load_the_gateway(tmp_path: Path, minimal: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(minimal)
    program = (
        "import sys; from rowgate.cli import main; "
        f"main(['config', 'validate', {str(path)!r}], standalone_mode=False); "
        "print(*sorted({'aiohttp', 'rowgate.app', 'supabase', 'mcp.server'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""


def test_a_new_key_is_random_and_its_hash_is_one_that_the_configuration_takes(tmp_path: Path, minimal: str) -> None:
    first, second = (rowgate("api-keys", "new").stdout.split() for _ in range(2))
    assert first[1] != second[1]
    key, digest = first[1], first[3]
    assert digest == f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
    path = tmp_path / "config.yaml"
    keys = f"keys: [{{name: a, subject: b, hash: '{digest}'}}, {{name: c, subject: d, secret: {{env: KEY}}}}]"
    path.write_text(minimal.replace("auth: {mode: oauth}", f"auth: {{mode: api-key, {keys}}}"))
    done = rowgate("config", "validate", str(path), KEY=second[1])
    assert done.returncode == 0, done.stderr


def test_the_migration_for_keys_is_printed_as_it_ships() -> None:
    shipped = (ROOT / "gateway/rowgate/supabase/sql/api_keys.sql").read_text(encoding="utf-8")
    assert rowgate("api-keys", "sql").stdout == shipped
