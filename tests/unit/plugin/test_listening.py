"""Where a plugin listens when it is not told a port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rowgate_plugin.listening import bound, listening_socket, passed_on
from rowgate_plugin.settings import SettingsError


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as it:
        it.bind(str(tmp_path / "passed"))
        it.listen()
        yield it


def test_nothing_is_listened_on_unless_it_is_said() -> None:
    assert listening_socket({}, pid=7) is None
    assert listening_socket({"SOCKET": ""}, pid=7) is None


def test_sockets_for_another_process_are_not_taken() -> None:
    """They are inherited by whatever a process starts."""
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": "8"}
    assert listening_socket(environ, pid=7) is None
    assert environ == {"LISTEN_FDS": "1", "LISTEN_PID": "8"}


@pytest.mark.parametrize("count", ["0", "2", "x", ""])
def test_exactly_one_socket_is_taken(count: str) -> None:
    with pytest.raises(SettingsError, match="LISTEN_FDS must be 1"):
        listening_socket({"LISTEN_FDS": count, "LISTEN_PID": "7"}, pid=7)


def test_a_socket_that_was_passed_on_is_taken_and_not_passed_further(listening: socket.socket) -> None:
    descriptor = os.dup(listening.fileno())
    os.set_inheritable(descriptor, True)
    with passed_on(descriptor) as taken:
        assert taken.getsockname() == listening.getsockname()
        assert not os.get_inheritable(descriptor)


def test_a_descriptor_that_is_no_listening_socket_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file, pytest.raises(SettingsError, match="is no socket"):
        passed_on(file.fileno())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as idle, pytest.raises(SettingsError, match="that listens"):
        passed_on(os.dup(idle.fileno()))
    with pytest.raises(SettingsError, match="is no socket"):
        passed_on(987)


def test_a_socket_of_its_own_is_for_owner_and_group(tmp_path: Path) -> None:
    with bound(tmp_path / "s"):
        assert os.stat(tmp_path / "s").st_mode & 0o777 == 0o660


def test_a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    bound(path).close()
    with bound(path), pytest.raises(SettingsError, match="another process listens there"):
        bound(path)


def test_a_file_is_never_removed_for_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(SettingsError, match="cannot be listened on"):
        bound(path)
    assert path.read_text() == "precious"
