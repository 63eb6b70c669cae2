"""What is measured, and how each is started. All stand before the same upstream and get the same requests."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from joserfc.jwk import OKPKey
from load import Probe, Sample, requests
from processes import Placement, start, stop
from tokens import issuer
from upstream import TOOL

BENCH = Path(__file__).parent
CACHE = BENCH.parent / ".cache" / "bench"
USERS = 200
FASTMCP = "4.2.3"
START_TIMEOUT = 60.0


@dataclass(slots=True)
class Target:
    name: str
    port: int
    process: subprocess.Popen[bytes]
    messages: list[bytes]
    slow: bool = False
    """Tens of milliseconds a call: fewer connections, and a lower rate when latency is measured."""
    log: Path = field(default=Path("/dev/null"))


class Scene:
    """The upstream, and the targets in front of it. Leaving it ends every process."""

    def __init__(self, directory: Path, cores: Placement | None) -> None:
        self._directory = directory
        self._cores = cores
        self._stack = ExitStack()
        self._port = free_port()
        base = f"http://127.0.0.1:{self._port}"
        self._upstream, self._jwks = f"{base}/mcp", f"{base}/auth/v1/.well-known/jwks.json"
        self._issuer = issuer(f"{base}/auth/v1")
        self._tokens = [self._issuer.token(user) for user in range(USERS)]

    def __enter__(self) -> Scene:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def start(self, names: Sequence[str], before: Path | None = None) -> list[Target]:
        keys = self._directory / "jwks.json"
        keys.write_bytes(self._issuer.jwks)
        core = self._cores.load if self._cores else None
        command = [sys.executable, str(BENCH / "upstream.py"), str(self._port), str(keys)]
        upstream = self._run("direct", self._port, command, core=core)
        await answering(upstream)
        targets = [upstream]
        for name in names:
            target = STARTERS[name](self)
            await answering(target)
            targets.append(target)
        if before:
            targets.append(self.rowgate(before))
            await answering(targets[-1])
        return targets

    def rowgate(self, checkout: Path | None = None) -> Target:
        """`checkout`: another copy of the sources, to measure a change against what was before."""
        port = free_port()
        key = OKPKey.generate_key("Ed25519", auto_kid=True)
        name = "rowgate, before" if checkout else "rowgate"
        config = self._directory / f"{name}.yaml"
        config.write_text(yaml.safe_dump(self._configuration(port), sort_keys=False))
        command = [sys.executable, "-m", "rowgate", "serve", str(config)]
        env = {"CONTEXT_KEY": json.dumps(key.as_dict(private=True))}
        if checkout:
            env["PYTHONPATH"] = f"{checkout / 'gateway'}:{checkout / 'plugins'}"
        return self._run(name, port, command, env=env)

    def nginx(self) -> Target:
        port = free_port()
        config = self._directory / "nginx.conf"
        text = (BENCH / "nginx.conf").read_text()
        for name, value in (("PORT", port), ("UPSTREAM", self._port), ("DIRECTORY", self._directory)):
            text = text.replace(f"@{name}@", str(value))
        config.write_text(text)
        return self._run("nginx", port, [nginx_binary() or "nginx", "-e", "stderr", "-c", str(config)])

    def baseline(self) -> Target:
        port = free_port()
        log = str(self._directory / "baseline.log")
        arguments = [str(port), self._upstream, self._jwks, self._issuer.url, log]
        return self._run("ordinary aiohttp", port, [sys.executable, str(BENCH / "baseline.py"), *arguments])

    def fastmcp(self, kind: str) -> Target:
        port = free_port()
        arguments = [str(port), self._upstream, self._jwks, self._issuer.url, kind]
        command = [str(fastmcp_python()), str(BENCH / "fastmcp_proxy.py"), *arguments]
        return self._run(f"FastMCP proxy, {kind}", port, command, slow=True)

    def _run(
        self,
        name: str,
        port: int,
        command: list[str],
        *,
        core: int | None = None,
        env: dict[str, str] | None = None,
        slow: bool = False,
    ) -> Target:
        if core is None and self._cores:
            core = self._cores.proxy
        log = self._directory / f"{name.replace(' ', '-')}.out"
        process = start(command, core=core, log=log, env=env)
        self._stack.callback(stop, process)
        return Target(name, port, process, requests(port, self._tokens), slow, log)

    def _configuration(self, port: int) -> dict[str, object]:
        issuer_settings = {"issuer": self._issuer.url, "jwks_url": self._jwks, "audience": ["authenticated"]}
        entry = {"from": "upstream", "tools": [TOOL], "require": {"scopes": ["email"]}}
        return {
            "version": 1,
            "gateway": {
                "public_url": f"http://127.0.0.1:{port}",
                "listen": f"127.0.0.1:{port}",
                "internal_listen": f"127.0.0.1:{free_port()}",
                "context": {"signing_key": {"env": "CONTEXT_KEY"}},
                "log": {"level": "info", "format": "json"},
            },
            "plugins": {"upstream": {"url": self._upstream, "credential": "user_token"}},
            "servers": {
                "main": {
                    "path": "/mcp",
                    "auth": {"mode": "oauth", "issuer": issuer_settings},
                    "scopes": {"issuable": ["email"]},
                    "capabilities": [entry],
                }
            },
        }


STARTERS: dict[str, Callable[[Scene], Target]] = {
    "nginx": Scene.nginx,
    "rowgate": Scene.rowgate,
    "baseline": Scene.baseline,
    "fastmcp-isolated": lambda scene: scene.fastmcp("isolated"),
    "fastmcp-shared": lambda scene: scene.fastmcp("shared"),
}


async def answering(target: Target) -> None:
    """Wait until a real call is answered, so that a target that cannot serve is seen before anything is measured."""
    deadline = time.monotonic() + START_TIMEOUT
    said = ""
    while target.process.poll() is None and time.monotonic() < deadline:
        probe, sample = Probe(target.port, target.messages), Sample()
        try:
            await asyncio.wait_for(probe.once(sample), 5)
        except (OSError, TimeoutError) as error:
            sample.failed(repr(error))
        finally:
            probe.close()
        if not sample.bad:
            return
        said = sample.example
        await asyncio.sleep(0.1)
    raise SystemExit(f"{target.name} does not serve: {said}\n{target.log.read_text(errors='replace')[-2000:]}")


def nginx_binary() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


def fastmcp_python() -> Path:
    return CACHE / f"fastmcp-{FASTMCP}" / "bin" / "python"


def install_fastmcp() -> None:
    """Into an environment of its own: it pins other versions of what the gateway uses."""
    python = fastmcp_python()
    if python.exists():
        return
    environment = python.parents[1]
    packages = [f"fastmcp=={FASTMCP}", "uvloop", "httptools"]
    print(f"installing {' '.join(packages)} into {environment}", file=sys.stderr)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    except (subprocess.CalledProcessError, OSError):
        shutil.rmtree(environment, ignore_errors=True)
        raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
