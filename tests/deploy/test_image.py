"""The image: what is in it, and that it runs with no rights, no shell and nothing to write to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.image import HERE, RESTRICTED, REVISION, Container, container, inspected
from flow.conftest import CONTEXT_KEY, settings
from flow.issuer import Issuer
from rowgate import __version__

# Whichever test is first waits for the image.
pytestmark = pytest.mark.timeout(900)

PUBLIC = "http://127.0.0.1:8080"
CONTEXT_KEY_TEXT = json.dumps(CONTEXT_KEY.as_dict(private=True))


def configure(directory: Path, issuer: str, plugin: str) -> dict[Path, str]:
    """Writes what is mounted into a gateway: configuration and key, readable by anybody as in a pod."""
    trusted = Issuer()
    trusted.url = issuer
    tree = settings(trusted, {"notes": plugin}, 8080)
    tree["gateway"] |= {"listen": "0.0.0.0:8080", "internal_listen": "0.0.0.0:9090"}
    tree["gateway"]["context"] = {"signing_key": {"file": "/run/secrets/rowgate/context.jwk"}}
    config, secrets = directory / "config", directory / "secrets"
    for file, text in {config / "config.yaml": yaml.safe_dump(tree), secrets / "context.jwk": CONTEXT_KEY_TEXT}.items():
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(0o644)
        file.parent.chmod(0o755)
    return {config: "/etc/rowgate", secrets: "/run/secrets/rowgate"}


@dataclass
class Deployed:
    gateway: Container
    neighbors: Container
    token: str

    def ask(self, **request: Any) -> dict[str, Any]:
        done = self.neighbors.execute("python", "-m", "deploy.neighbors", "ask", stdin=json.dumps(request))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def deployed(image: str, tmp_path: Path) -> Iterator[Deployed]:
    """A healthy gateway that shares a network of their own with an issuer and a plugin."""
    with ExitStack() as stack:
        neighbors = stack.enter_context(
            container(
                *(image, "-m", "deploy.neighbors", "serve"),
                options=(
                    "--entrypoint=python",
                    "--user=0",
                    "--env=PYTHONPATH=/tests",
                    f"--env=CONTEXT_KEY={CONTEXT_KEY_TEXT}",
                ),
                mounts={HERE.parent: "/tests"},
            )
        )
        where = json.loads(neighbors.until(neighbors.logs))
        gateway = stack.enter_context(
            container(
                image,
                options=RESTRICTED,
                network=f"container:{neighbors.id}",
                mounts=configure(tmp_path, where["issuer"], where["plugin"]),
            )
        )
        gateway.until(gateway.healthy)
        yield Deployed(gateway, neighbors, where["token"])


def test_the_image_says_what_it_is_and_starts_without_a_shell(image: str) -> None:
    found = inspected(image)
    assert found["Healthcheck"]["Test"] == ["CMD", "rowgate", "health"]
    config = found["Config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["rowgate"]
    assert config["Cmd"] == ["serve", "/etc/rowgate/config.yaml"]
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert config["ExposedPorts"].keys() == {"8080/tcp", "9090/tcp"}
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
    assert labels["title"] == "rowgate"
    assert (labels["version"], labels["revision"], labels["licenses"]) == (__version__, REVISION, "MIT")


def test_the_image_holds_the_gateway_and_nothing_that_builds_or_tests_it(image: str) -> None:
    code = """
import importlib.metadata, json, os
roots = ["/opt", "/source", "/tools", "/wheels", "/etc/rowgate"]
files = [os.path.join(at, name) for root in roots for at, _, names in os.walk(root) for name in names]
print(json.dumps({
    "packages": [it.name for it in importlib.metadata.distributions(path=__import__("site").getsitepackages())],
    "outside": [file for file in files if not file.startswith("/opt/rowgate/")],
    "writable": [file for file in files if os.access(file, os.W_OK)],
    "compiled": sum(file.endswith(".pyc") for file in files),
    "top": sorted({file.split("/site-packages/")[1].split("/")[0] for file in files if "/site-packages/" in file}),
}))"""
    with container(image, "-c", code, options=("--entrypoint=python",)) as it:
        assert it.exits() == 0, it.logs()
        found = json.loads(it.logs())
    packages = {name.lower() for name in found["packages"]}
    assert {"rowgate", "aiohttp", "mcp"} <= packages
    assert not packages & {"pip", "setuptools", "hatchling", "pytest", "ruff", "mypy", "hypothesis"}
    assert {"rowgate", "rowgate_plugin", "team_notes"} <= set(found["top"])
    assert not {"tests", "bench", "docs"} & set(found["top"])
    assert (found["outside"], found["writable"]) == ([], [])
    assert found["compiled"] > 100


def test_a_restricted_container_becomes_healthy_serves_and_ends_with_0_on_sigterm(deployed: Deployed) -> None:
    status = deployed.gateway.python("pathlib.Path('/proc/1/status').read_text()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Uid"].split() == fields["Gid"].split() == ["65532"] * 4
    assert (int(fields["CapEff"], 16), int(fields["CapBnd"], 16), fields["NoNewPrivs"]) == (0, 0, "1")
    assert deployed.gateway.python(
        "[line.split()[3][:2] for line in open('/proc/mounts') if line.split()[1] == '/']"
    ) == ["ro"]

    stranger = deployed.ask(url=f"{PUBLIC}/mcp", call="echo", arguments={"text": "hello"})
    assert stranger["status"] == 401
    document = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{document}"' in stranger["headers"]["WWW-Authenticate"]
    assert deployed.ask(url=document)["body"]["resource"] == f"{PUBLIC}/mcp"

    known = deployed.ask(url=f"{PUBLIC}/mcp", call="echo", arguments={"text": "hello"}, token=deployed.token)
    assert (known["status"], known["body"]["result"]["content"][0]["text"]) == (200, "hello")

    deployed.gateway.stop()
    state = deployed.gateway.state()
    assert (state["ExitCode"], state["OOMKilled"]) == (0, False)
    last = json.loads(deployed.gateway.logs().splitlines()[-1])
    assert (last["event"], last["state"]) == ("gateway_changed", "stopped")


def test_a_gateway_that_misses_its_issuers_keys_is_not_healthy(image: str, tmp_path: Path) -> None:
    mounts = configure(tmp_path, "http://127.0.0.1:1/auth/v1", "http://127.0.0.1:2/mcp")
    with container(image, options=RESTRICTED, mounts=mounts) as it:
        it.until(lambda: '"state":"serving"' in it.logs().replace(" ", ""))
        assert not it.healthy()
        assert json.loads(it.execute("rowgate", "health").stderr)["missing"] == ["keys:http://127.0.0.1:1/auth/v1"]


def test_a_container_without_a_configuration_says_so_and_exits_with_78(image: str) -> None:
    with container(image, options=RESTRICTED) as it:
        assert it.exits() == 78
        assert "/etc/rowgate/config.yaml" in it.logs()
