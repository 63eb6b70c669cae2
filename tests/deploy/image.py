"""The image, built and run without a daemon: buildah and podman, with runc."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAME = "localhost/rowgate:test"
REVISION = "0123456789abcdef"
TOOLS = ("buildah", "podman", "runc")

BASE = os.environ.get("ROWGATE_IMAGE_BASE")
"""What to build on instead of an image made here, such as python:3.13-slim."""

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

BUILD_TIMEOUT = 600
PATIENCE = 60

RESTRICTED = (
    "--read-only",
    "--read-only-tmpfs=false",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--pids-limit=128",
    # Nothing in the image that could run a shell script.
    "--volume=/dev/null:/usr/bin/dash:ro",
)


def missing() -> list[str]:
    """Programs that are needed and not installed."""
    return [tool for tool in (*TOOLS, *(() if BASE else ("mmdebstrap",))) if shutil.which(tool) is None]


def run(*command: str | Path, stdin: str = "", timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    # Otherwise podman wants systemd to run the health check.
    env = os.environ | {"DISABLE_HC_SYSTEMD": "true"}
    return subprocess.run(command, input=stdin, env=env, capture_output=True, text=True, timeout=timeout)


def checked(*command: str | Path, timeout: float = PATIENCE) -> str:
    done = run(*command, timeout=timeout)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def build(version: str) -> str:
    """Returns the image's name."""
    options = ["--isolation=chroot", "--pull=never", "--format=docker", "--layers", "--quiet"]
    if CERTIFICATES.exists():
        # A network that inspects TLS is trusted by the machine, and so by the builder on it.
        options.append(f"--volume={CERTIFICATES}:{CERTIFICATES}:ro")
    for name, value in {"BASE": base(), "VERSION": version, "REVISION": REVISION}.items():
        options.append(f"--build-arg={name}={value}")
    checked("buildah", "bud", *options, f"--tag={NAME}", ROOT, timeout=BUILD_TIMEOUT)
    return NAME


def base() -> str:
    if BASE:
        checked("buildah", "pull", "--quiet", "--policy=missing", BASE, timeout=BUILD_TIMEOUT)
        return BASE
    script = HERE / "base-image.sh"
    name = f"localhost/rowgate-test-base:{hashlib.sha256(script.read_bytes()).hexdigest()[:12]}"
    if run("buildah", "inspect", "--type=image", name).returncode:
        checked(script, name, timeout=BUILD_TIMEOUT)
    return name


@dataclass(frozen=True)
class Container:
    id: str

    def execute(self, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return run("podman", "exec", "--interactive", self.id, *command, stdin=stdin)

    def python(self, code: str) -> Any:
        """The value of an expression, through JSON."""
        done = self.execute("python", "-c", f"import json, os, pathlib; print(json.dumps({code}))")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def healthy(self) -> bool:
        """What the image's own health check says now."""
        return run("podman", "healthcheck", "run", self.id).returncode == 0

    def until(self, probe: Callable[[], T]) -> T:
        """Ask until the answer is true, while the container runs."""
        deadline = time.monotonic() + PATIENCE
        while not (found := probe()):
            assert self.state()["Running"], self.logs()
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.1)
        return found

    def logs(self) -> str:
        done = run("podman", "logs", self.id)
        return done.stdout + done.stderr

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not end it."""
        checked("podman", "stop", "--time=30", self.id)

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(checked("podman", "inspect", "--format={{json .State}}", self.id))
        return found

    def exits(self) -> int:
        return int(checked("podman", "wait", self.id))


@contextmanager
def container(
    image: str,
    *command: str,
    options: tuple[str, ...] = (),
    network: str = "none",
    mounts: Mapping[Path, str] | None = None,
) -> Iterator[Container]:
    """`mounts` are read-only."""
    volumes = [f"--volume={source}:{target}:ro" for source, target in (mounts or {}).items()]
    # Limits that a machine without CAP_SYS_RESOURCE can set.
    limits = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
    started = checked(
        *("podman", "--runtime=runc", "run", "--detach", f"--network={network}", *limits, *options, *volumes),
        *(image, *command),
    )
    try:
        yield Container(started)
    finally:
        run("podman", "rm", "--force", "--time=1", started)


def inspected(image: str) -> dict[str, Any]:
    (found,) = json.loads(checked("podman", "image", "inspect", image))
    return dict(found)
