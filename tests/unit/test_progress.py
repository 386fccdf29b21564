"""The line that tells how long a window still is, on a terminal; and what it says of threads."""

import os
import pty
import select
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TextIO

import pytest

from kernel_delay.host import losing
from kernel_delay.host.losing import RunDelays
from kernel_delay.reporters.progress import window_progress
from tests.workload import HANGS_S

ERASED = "\x1b[1A\x1b[2K"

S = 10**9
MS = 10**6


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TextIO, int]]:
    """A terminal, and what reads what it shows."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        yield file, master
    os.close(master)


def threads() -> str:
    return "61 threads; cul\x1bprit (7) waited 120 ms for a CPU"


def read_until(master: int, text: str) -> str:
    """What the terminal was sent up to `text`, which may come in pieces."""
    shown = b""
    while text.encode() not in shown:
        ready, _, _ = select.select([master], [], [], HANGS_S)
        assert ready, shown
        shown += os.read(master, 65536)
    return shown.decode()


def test_a_long_window_has_a_line_that_goes_away(terminal: tuple[TextIO, int]) -> None:
    file, master = terminal
    with window_progress(file, 5 * S, threads) as left:
        assert left is not None
        left(4_900 * MS)
        shown = read_until(master, "5 s left: 61 threads; cul\\x1bprit (7) waited 120 ms for a CPU")
        left(1_200 * MS)
        shown += read_until(master, "2 s left: ")
        # On a line of its own, which is written over.
        assert "\n" not in shown
        left(0)
        read_until(master, ERASED)
        # The next window has one too.
        left(3_000 * MS)
        read_until(master, "3 s left: ")
    read_until(master, ERASED)


def test_progress_is_not_shown_for_short_windows_or_pipes(terminal: tuple[TextIO, int]) -> None:
    file, _ = terminal
    for output, window_ns in ((file, 2 * S), (StringIO(), 60 * S), (None, 60 * S)):
        with window_progress(output, window_ns, threads) as left:
            assert left is None


def put(tasks: Path, tid: int, name: str, delay_ns: int) -> None:
    (tasks / str(tid)).mkdir(parents=True, exist_ok=True)
    (tasks / str(tid) / "comm").write_text(f"{name}\n")
    (tasks / str(tid) / "schedstat").write_text(f"123456 {delay_ns} 7\n")


def test_the_thread_that_waited_longest_since_the_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losing, "PROC", tmp_path)
    tasks = tmp_path / "42" / "task"
    put(tasks, 42, "main", 9_000 * MS)
    glance = RunDelays(42)
    assert glance() == "1 thread"
    put(tasks, 42, "main", 9_003 * MS)
    put(tasks, 43, "worker", 500 * MS)  # new: what it waited before is not known to be of now
    assert glance() == "2 threads; main (42) waited 3 ms for a CPU"
    put(tasks, 43, "worker", 1_700 * MS)
    assert glance() == "2 threads; worker (43) waited 1,200 ms for a CPU"
    (tasks / "43" / "schedstat").unlink()
    assert glance() == "2 threads; main (42) waited 3 ms for a CPU"
    for tid in range(100, 300):
        put(tasks, tid, "many", 0)
    assert glance() == "202 threads"
    assert RunDelays(41)() == "no threads"


def test_the_kernel_has_what_is_read() -> None:
    stop = threading.Event()
    others = [threading.Thread(target=stop.wait) for _ in range(3)]
    for other in others:
        other.start()
    try:
        count = len(list(Path("/proc/self/task").iterdir()))
        assert RunDelays(os.getpid())().startswith(f"{count} threads")
    finally:
        stop.set()
