from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rowgate.observe.lines import GATHERED, LineWriter, file_writer

NEVER = 3600.0


class Recorder:
    """A raw stream that takes at most `piece` bytes at once and says when it was written to."""

    def __init__(self, piece: int = 1 << 20) -> None:
        self.piece = piece
        self.taken = b""
        self.written = threading.Event()

    def write(self, data: memoryview, /) -> int:
        self.taken += bytes(data[: self.piece])
        self.written.set()
        return min(len(data), self.piece)


class Broken:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def write(self, data: memoryview, /) -> int | None:
        if self.error:
            raise self.error
        return None


def test_an_ordinary_line_waits_and_an_urgent_one_takes_it_along() -> None:
    stream = Recorder()
    writer = LineWriter(stream, interval=NEVER)
    writer.write("first")
    assert stream.taken == b""
    writer.write("second", urgent=True)
    assert stream.taken == b"first\nsecond\n"
    writer.close()


def test_a_line_that_nobody_hurries_leaves_by_itself() -> None:
    stream = Recorder()
    writer = LineWriter(stream, interval=0.01)
    for number in range(3):
        stream.written.clear()
        writer.write(str(number))
        assert stream.written.wait(timeout=30)
    writer.close()
    assert stream.taken == b"0\n1\n2\n"


def test_closing_writes_what_waits_and_lines_written_later_go_out_at_once() -> None:
    stream = Recorder()
    writer = LineWriter(stream, interval=NEVER)
    writer.write("last words")
    writer.close()
    assert stream.taken == b"last words\n"
    writer.write("after the end")
    assert stream.taken.endswith(b"after the end\n")


def test_a_reader_that_is_stuck_cannot_fill_the_memory() -> None:
    stream = Recorder()
    writer = LineWriter(stream, interval=NEVER)
    for number in range(GATHERED):
        writer.write(str(number))
    assert stream.taken.count(b"\n") == GATHERED
    writer.close()


def test_a_stream_that_takes_little_at_a_time_loses_nothing() -> None:
    stream = Recorder(piece=3)
    writer = LineWriter(stream, interval=0)
    writer.write("a longer line")
    assert stream.taken == b"a longer line\n"


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left"), ValueError("closed"), None])
def test_a_stream_that_fails_never_raises_and_the_loss_is_counted(error: Exception | None) -> None:
    lost: list[int] = []
    writer = LineWriter(Broken(error), interval=NEVER, on_loss=lost.append)
    writer.write("one")
    writer.write("two", urgent=True)
    writer.write("three", urgent=True)
    writer.close()
    assert lost == [2, 1]


def test_a_destructor_may_log_in_the_middle_of_a_write() -> None:
    class Reentrant(Recorder):
        def write(self, data: memoryview, /) -> int:
            if not self.taken:
                writer.write("from the destructor", urgent=True)
            return super().write(data)

    stream = Reentrant()
    writer = LineWriter(stream, interval=0)
    writer.write("first")
    assert stream.taken == b"first\nfrom the destructor\n"


def test_lines_of_many_threads_stay_whole_and_in_order() -> None:
    stream = Recorder(piece=1000)
    writer = LineWriter(stream, interval=0.001)

    def write(name: int) -> None:
        for number in range(2000):
            writer.write(f"{name} {number}", urgent=number % 100 == 0)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    lines = [tuple(map(int, line.split())) for line in stream.taken.decode().splitlines()]
    assert len(lines) == 8000
    for name in range(4):
        assert [number for owner, number in lines if owner == name] == list(range(2000))


def test_a_file_is_appended_to_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("before\n")
    file_writer(path).write("after")
    assert path.read_text() == "before\nafter\n"


def run(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0"])
def test_a_process_that_ends_loses_no_line(end: str) -> None:
    program = (
        "import sys; sys.stderr = None\n"
        "from rowgate.observe.lines import stdout_writer\n"
        "w = stdout_writer()\n"
        "w.write('one')\n"
        f"w.write('two')\n{end}"
    )
    with run(program) as process:
        assert process.communicate()[0] == "one\ntwo\n"


def test_a_killed_process_has_written_its_warnings() -> None:
    program = (
        "import os, signal\n"
        "from rowgate.observe.lines import stdout_writer\n"
        "w = stdout_writer()\n"
        "w.write('before')\n"
        "w.write('warning', urgent=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with run(program) as process:
        assert process.communicate()[0] == "before\nwarning\n"
    assert process.returncode == -signal.SIGKILL


def test_a_reader_that_went_away_does_not_stop_the_process() -> None:
    read, write = os.pipe()
    os.close(read)
    program = (
        "import sys\n"
        "from rowgate.observe.lines import stdout_writer\n"
        "lost = []\n"
        "w = stdout_writer(on_loss=lost.append)\n"
        "w.write('x', urgent=True)\n"
        "sys.stderr.write(repr(lost))\n"
    )
    process = subprocess.run([sys.executable, "-c", program], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (process.returncode, process.stderr) == (0, "[1]")
