"""`kernel-delay top` in a terminal of its own: a screen of a real process, its keys, its end."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.recording.reader import open_recording
from tests.workload import HANGS_S, sleeping

COMMAND = [sys.executable, "-m", "kernel_delay", "top", "--delay", "0.2"]

# No view has this text.
END = b"<end>"


class Screen:
    """A terminal with the command in it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._terminal, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.modes = termios.tcgetattr(other)
        self.other = other
        self.text = ""
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=folder,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )

    def press(self, keys: str) -> None:
        """Type these."""
        self.text = ""
        os.write(self._terminal, keys.encode())

    def wait_for(self, text: str) -> None:
        """Until it was drawn, however long that takes; fails where the command ends before."""
        while text not in self.text:
            if not self._has_more(1.0):
                assert self.process.poll() is None, self.text

    def end(self) -> int:
        """Read on until the command has ended, and all that it wrote; return its status."""
        while self.process.poll() is None:
            self._has_more(0.1)
        # A kernel worker passes on what is written: it arrives late if the worker has no CPU.
        os.write(self.other, END)
        while not self.text.endswith(END.decode()):
            assert self._has_more(HANGS_S), self.text
        self.text = self.text.removesuffix(END.decode())
        return self.process.wait()

    def _has_more(self, within_s: float) -> bool:
        """Read what was written, if anything is within this time."""
        ready, _, _ = select.select([self._terminal], [], [], within_s)
        if ready:
            self.text += os.read(self._terminal, 65536).decode(errors="replace")
        return bool(ready)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)
        os.close(self.other)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that sleeps."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()


def test_shows_a_process_and_leaves_the_terminal_as_it_was(
    measurable: None, sleeper: int, tmp_path: Path
) -> None:
    screen = Screen(tmp_path, "-p", str(sleeper))
    try:
        screen.wait_for("|BBBBBBBBBBBBBBBBB| sleep")
        screen.press("\r")
        screen.wait_for("TIME ACCOUNTING")
        screen.press("w")
        screen.wait_for("written: top-")
        screen.press("q")
        assert screen.end() == 0, screen.text
        assert screen.text.endswith("\x1b[?1049l")
        assert termios.tcgetattr(screen.other) == screen.modes
    finally:
        screen.close()
    (path,) = tmp_path.glob("top-*.kdr")
    with open_recording(path) as recording:
        assert recording.header.target.pid == sleeper


def test_another_size_is_drawn_anew(measurable: None, sleeper: int, tmp_path: Path) -> None:
    screen = Screen(tmp_path, "-p", str(sleeper))
    try:
        screen.wait_for("|BBBBBBBBBBBBBBBBB| sleep")
        fcntl.ioctl(screen.other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        screen.wait_for("CAUSE")
        screen.press("q")
        assert screen.end() == 0, screen.text
    finally:
        screen.close()


def test_with_chains_the_verdict_names_who_is_waited_for(measurable: None, tmp_path: Path) -> None:
    """`cat` waits for a pipe whose other end a stopped process has."""
    with sleeping(stdout=subprocess.PIPE) as stopped:
        client = subprocess.Popen(["cat"], stdin=stopped.stdout)
        stopped.send_signal(signal.SIGSTOP)
        screen = Screen(tmp_path, "-p", str(client.pid), "--chains")
        try:
            screen.wait_for(f"sleep ({stopped.pid}) was stopped while the main thread cat")
            screen.press("q")
            assert screen.end() == 0, screen.text
        finally:
            screen.close()
            stopped.kill()
            client.wait()


@pytest.mark.parametrize("ends_by_key", [True, False])
def test_end_before_the_first_window_leaves_the_terminal_as_it_was(
    ends_by_key: bool, measurable: None, sleeper: int, tmp_path: Path
) -> None:
    screen = Screen(tmp_path, "-p", str(sleeper))
    try:
        # The keys are taken from now on, and no program is loaded yet.
        screen.wait_for("the first window is open")
        if ends_by_key:
            screen.press("q")
        else:
            screen.process.terminate()
        assert screen.end() == (0 if ends_by_key else 128 + signal.SIGTERM), screen.text
        assert screen.text.endswith("\x1b[?1049l")
        assert termios.tcgetattr(screen.other) == screen.modes
    finally:
        screen.close()


def test_terminal_that_goes_away_ends_it_as_sighup(
    measurable: None, sleeper: int, tmp_path: Path
) -> None:
    screen = Screen(tmp_path, "--pid", str(sleeper))
    try:
        screen.wait_for("sleep")
        os.close(screen.other)
        os.close(screen._terminal)
        assert screen.process.wait(60) == 128 + signal.SIGHUP
    finally:
        screen.process.kill()
        screen.process.wait()


def test_without_a_terminal_it_says_what_to_use(sleeper: int) -> None:
    done = subprocess.run(
        [*COMMAND, "-p", str(sleeper)], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == os.EX_USAGE
    assert done.stderr == (
        "kernel-delay: top needs a terminal that can be drawn on: use `capture --summary` or"
        " `watch`\n"
    )
