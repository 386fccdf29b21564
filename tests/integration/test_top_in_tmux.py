"""`kernel-delay top` in tmux: sizes, a resize, colours, job control, and what is left behind."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.needs import needed
from tests.workload import wait_until

COMMAND = f"{shlex.quote(sys.executable)} -m kernel_delay top --delay 0.2"
KEYS = "q quit"


class Pane:
    """A terminal of tmux with a shell that has job control, on a server of its own."""

    def __init__(self, folder: Path, columns: int, lines: int) -> None:
        self._tmux = [needed("tmux"), "-S", str(folder / "socket"), "-f", os.devnull]
        size = ("-x", str(columns), "-y", str(lines))
        shell = "env PS1='$ ' bash --norc --noprofile"
        self.tmux("new-session", "-d", *size, "-c", str(folder), shell)
        wait_until(lambda: self.text().startswith("$"), "the shell")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def text(self, *options: str) -> str:
        return self.tmux("capture-pane", "-p", *options)

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def wait_for(self, *texts: str, without: str = "\0") -> str:
        """Until all of these are on the screen, and that one is not; return that screen."""

        def is_drawn(screen: str) -> bool:
            return all(text in screen for text in texts) and without not in screen

        return self._wait_for(is_drawn, f"{texts}")

    def wait_for_prompt(self) -> str:
        return self._wait_for(lambda screen: screen.rstrip().endswith("\n$"), "the prompt")

    def _wait_for(self, is_it: Callable[[str], bool], what: str) -> str:
        """Until it is; return the very screen that is: a later one may be drawn in part."""
        screens: list[str] = []

        def is_there() -> bool:
            screens[:] = [self.text()]
            return is_it(screens[0])

        wait_until(is_there, what)
        return screens[0]


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that sleeps."""
    process = subprocess.Popen(["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(params=[(80, 24), (200, 50)], ids=["80x24", "200x50"])
def pane(request: pytest.FixtureRequest, measurable: None, tmp_path: Path) -> Iterator[Pane]:
    """A terminal of that size."""
    pane = Pane(tmp_path, *request.param)
    yield pane
    pane.tmux("kill-server")


@pytest.fixture
def small(measurable: None, tmp_path: Path) -> Iterator[Pane]:
    """A terminal of 80 columns."""
    pane = Pane(tmp_path, 80, 24)
    yield pane
    pane.tmux("kill-server")


def test_screen_fills_the_terminal_and_leaves_it(pane: Pane, sleeper: int) -> None:
    pane.type(f"echo before; {COMMAND} -p {sleeper}", "Enter")
    lines = pane.wait_for("| sleep", "VERDICT", KEYS).rstrip("\n").split("\n")
    assert lines[0].startswith("kernel-delay top, ")
    assert lines[-1].startswith(KEYS)
    width, height = map(int, pane.tmux("display", "-p", "#{pane_width} #{pane_height}").split())
    assert len(lines) == height
    assert ("CAUSE" in lines[1]) == (width == 200)
    pane.type("q")
    text = pane.wait_for_prompt()
    assert "before" in text
    assert "VERDICT" not in text


def test_resized_terminal_is_drawn_at_its_size(small: Pane, sleeper: int) -> None:
    small.type(f"{COMMAND} -p {sleeper}", "Enter")
    small.wait_for("| sleep", KEYS)
    small.tmux("resize-window", "-x", "200", "-y", "50")
    lines = small.wait_for("CAUSE", KEYS).rstrip("\n").split("\n")
    wait_until(lambda: small.text().rstrip("\n").split("\n")[49:50] != [""], "the foot")
    small.tmux("resize-window", "-x", "60", "-y", "12")
    wait_until(lambda: "CAUSE" not in small.text(), "a narrow screen")
    lines = small.wait_for("| sleep", KEYS).rstrip("\n").split("\n")
    assert lines[0].startswith("kernel-delay top, ")
    assert "TID" in lines[1]


def test_no_color_draws_without_colours(small: Pane, sleeper: int) -> None:
    small.type(f"NO_COLOR=1 {COMMAND} -p {sleeper}", "Enter")
    small.wait_for("| sleep", KEYS)
    assert "\x1b" not in small.text("-e")
    small.type("q")
    small.wait_for_prompt()
    small.type(f"clear; {COMMAND} -p {sleeper}", "Enter")
    small.wait_for("| sleep", KEYS)
    assert "\x1b" in small.text("-e")


def test_stopped_view_gives_the_terminal_back_until_fg(small: Pane, sleeper: int) -> None:
    small.type(f"echo before; {COMMAND} -p {sleeper}", "Enter")
    small.wait_for("| sleep", KEYS)
    # With a key before it, both are read at once.
    small.type("?", "C-z")
    text = small.wait_for("Stopped")
    assert "before" in text
    assert "| sleep" not in text
    small.type("fg", "Enter")
    lines = small.wait_for("| sleep", "freeze, and go on", KEYS).split("\n")
    assert lines[0].startswith("kernel-delay top, ")
    small.type("q")
    assert "before" in small.wait_for_prompt()


def test_filter_that_matches_nothing_has_an_empty_table(small: Pane, sleeper: int) -> None:
    small.type(f"{COMMAND} -p {sleeper}", "Enter")
    small.wait_for("| sleep", KEYS)
    small.type("/", "nothing", "Enter")
    # The table is drawn after its title, and the screen may be read between the two.
    small.wait_for("0 threads with 'nothing'", KEYS, without="| sleep")
    small.type("Escape")
    small.wait_for("| sleep")


def test_q_that_was_typed_before_the_start_quits(small: Pane, sleeper: int) -> None:
    small.type(f"echo before; {COMMAND} -p {sleeper}", "Enter", "q")
    assert "before" in small.wait_for_prompt()


def test_children_are_in_the_view(small: Pane) -> None:
    family = subprocess.Popen(
        ["bash", "-c", "sleep 1001 & sleep 1002 & wait"], start_new_session=True
    )
    try:
        small.type(f"{COMMAND} -p {family.pid} --children", "Enter")
        small.wait_for("3 processes", "sleep 1001", "sleep 1002")
    finally:
        os.killpg(family.pid, signal.SIGKILL)
        family.wait()
