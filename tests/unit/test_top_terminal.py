"""The terminal of `kernel-delay top` where a call fails: it is given back."""

import errno
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from typing import NamedTuple, NoReturn, TextIO

import pytest

from kernel_delay.reporters import top_terminal
from kernel_delay.reporters.top_terminal import Terminal
from kernel_delay.reporters.top_view import Shown, shown
from tests.recordings import HEADER
from tests.unit.samples import bare_sample, timed_thread
from tests.workload import HANGS_S, wait_until

# Marks the end of what was written: no view has this text.
DRAWN = b"<drawn>"


class Screen(NamedTuple):
    """A terminal: its two ends, the second as a file."""

    other: int
    file: TextIO

    def drawn(self) -> str:
        """What was written to it since the last call."""
        # A kernel worker passes on what is written: it arrives late if the worker has no CPU.
        os.write(self.file.fileno(), DRAWN)
        text = b""
        while not text.endswith(DRAWN):
            assert select.select([self.other], [], [], HANGS_S)[0], text
            text += os.read(self.other, 1 << 16)
        return text.removesuffix(DRAWN).decode()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """A terminal that is standard input too."""
    other, terminal = pty.openpty()
    monkeypatch.setattr(os, "dup", lambda fd, dup=os.dup: dup(terminal if fd == 0 else fd))
    with open(terminal, "w") as file:
        yield Screen(other, file)
    os.close(other)


def test_terminal_is_given_back_where_no_thread_starts(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    modes = termios.tcgetattr(screen.other)
    monkeypatch.setattr(threading.Thread, "start", fail)
    with (
        pytest.raises(RuntimeError, match="thread"),
        Terminal(screen.file, lambda shown: "", has_color=False),
    ):
        pass
    assert screen.drawn().endswith("\x1b[?1049l")
    assert termios.tcgetattr(screen.other) == modes


def test_failed_wait_for_keys_ends_the_view(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    # Of the module alone: the thread looks it up in there.
    monkeypatch.setattr(top_terminal, "select", type("select", (), {"select": fail}))
    with Terminal(screen.file, lambda shown: "", has_color=False) as terminal:
        wait_until(lambda: terminal._failure is not None, "the thread's end")
        with pytest.raises(OSError, match="memory"):
            terminal.show(None)  # type: ignore[arg-type]


def test_terminal_that_takes_nothing_is_named(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, text: bytes) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", fail)
    with (
        pytest.raises(OSError, match="standard output"),
        Terminal(screen.file, lambda shown: "", has_color=False),
    ):
        pass


def test_terminal_that_goes_away_is_an_error_of_the_system(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = termios.error(errno.EIO, os.strerror(errno.EIO))

    def fail(*_: object) -> NoReturn:
        raise gone

    terminal = Terminal(screen.file, lambda shown: "", has_color=False)
    terminal.__enter__()
    monkeypatch.setattr(termios, "tcsetattr", fail)
    with pytest.raises(OSError, match="Input/output error"):
        terminal.__exit__()


@pytest.mark.parametrize(
    ("reported", "variables", "size"),
    [
        ((0, 0), {}, (80, 24)),
        ((0, 0), {"COLUMNS": "132", "LINES": "50"}, (132, 50)),
        ((30, 0), {"COLUMNS": "132"}, (132, 30)),
        ((30, 100), {"COLUMNS": "132", "LINES": "50"}, (100, 30)),
    ],
)
def test_terminal_without_a_size_has_a_usual_one(
    screen: Screen,
    monkeypatch: pytest.MonkeyPatch,
    reported: tuple[int, int],
    variables: dict[str, str],
    size: tuple[int, int],
) -> None:
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "__stdout__", None)
    fcntl.ioctl(screen.other, termios.TIOCSWINSZ, struct.pack("HHHH", *reported, 0, 0))
    with Terminal(screen.file, lambda shown: "", has_color=False) as terminal:
        assert terminal._size == size


def shown_of(*names: str) -> Shown:
    threads = (timed_thread(at, name) for at, name in enumerate(names, 7))
    return shown([bare_sample(*threads)], HEADER)


def test_window_draws_the_lines_that_changed(screen: Screen) -> None:
    fcntl.ioctl(screen.other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with Terminal(screen.file, lambda shown: "", has_color=False) as terminal:
        terminal.show(shown_of("main", "worker"))
        assert "worker" in screen.drawn()
        terminal.show(shown_of("main", "other"))
        assert re.findall(r"\x1b\[(\d+)H", screen.drawn()) == ["4"]
        terminal.say("a message")
        assert screen.drawn().count("\x1b[K") == 24


def test_without_colour_nothing_but_places_is_written(screen: Screen) -> None:
    with Terminal(screen.file, lambda shown: "", has_color=False) as terminal:
        terminal.show(shown_of("main"))
        assert set(re.findall(r"\x1b\[[0-9;]*[a-zA-Z]", screen.drawn())) <= {
            "\x1b[K",
            *(f"\x1b[{row}H" for row in range(1, 200)),
        }
