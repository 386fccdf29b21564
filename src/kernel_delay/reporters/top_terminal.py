"""The terminal of `kernel-delay top`: its keys, and what is drawn on it.

Neither rich's Live nor textual draws it. Live takes no keys, and renders a whole screen where two
lines have changed. textual takes keys, but runs the program in an event loop of its own, where
windows are waited for in ours, and is six further packages that root would run. Lines are strings
here: tests compare them.
"""

import os
import select
import shutil
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Self, TextIO

from kernel_delay.errors import KernelDelayError, naming
from kernel_delay.host.privileges import without_capabilities
from kernel_delay.host.signals import quit_as_asked, shutdown_modes, shutdown_text
from kernel_delay.reporters.top_view import Line, Shown, View

# ECMA-48 and xterm's private modes: the other screen, no cursor, no further line for a long one.
_BEGIN = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_END = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_CLEAR_LINE, _PLAIN = "\x1b[K", "\x1b[0m"

_REVERSE = "\x1b[7m"

_KEYS = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}

# How soon a terminal of another size is drawn anew.
_LOOK_S = 0.5

_COLORS = {
    "heading": "\x1b[1;36m",
    "verdict": "\x1b[1;31m",
    "acquittal": "\x1b[32m",
    "remark": "\x1b[33m",
    "warning": "\x1b[1;33m",
}


@contextmanager
def _oserrors() -> Iterator[None]:
    """Have the terminal's errors as those of files: termios.error is no OSError."""
    try:
        yield
    except termios.error as error:
        raise OSError(*error.args, "standard input") from error


class Terminal:
    """While it is entered the terminal shows a View, and a thread takes keys."""

    def __init__(self, file: TextIO, record: Callable[[Shown], str], *, has_color: bool) -> None:
        """Draw on `file`; `record` writes what is shown, and returns what to say of that."""
        self._input, self._output = os.dup(0), file.fileno()
        self._record = record
        self._has_color = has_color
        self._view = View()
        self._shown: Shown | None = None
        self._newest: Shown | None = None
        self._lines: Sequence[Line] = ()
        self._size = os.terminal_size((0, 0))
        self._lock = threading.Lock()
        self._ending, self._end = os.pipe2(os.O_CLOEXEC)
        self._closing = ExitStack()
        self._failure: Exception | None = None
        self.has_quit = False

    def __enter__(self) -> Self:
        """Take the terminal. Raises OSError where it is gone."""
        with _oserrors():
            self._saved = termios.tcgetattr(self._input)
        with ExitStack() as closing:
            for fd in (self._input, self._ending):
                closing.callback(os.close, fd)
            closing.callback(self._give)
            closing.enter_context(shutdown_modes(self._input))
            closing.enter_context(shutdown_text(self._output, _END))
            self._take()
            self._keys = threading.Thread(target=self._run, name="keys")
            # It reads keys, and writes to the user's own folder.
            without_capabilities(self._keys.start)
            closing.callback(self._stop)
            self._draw()
            # Given back at once where that fails.
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back as it was."""
        self._closing.close()

    def show(self, what: Shown) -> None:
        """Show this from now on, unless what is there is frozen.

        Raises what the thread that takes keys ended with, if it failed.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._newest = what
        self._draw(is_whole=False)

    def say(self, text: str) -> None:
        """Have a line at the bottom, until a key is pressed."""
        with self._lock:
            self._view.message = text
        self._draw()

    @_oserrors()
    def _take(self) -> None:
        # What was typed while the command started is not lost: it may be q.
        tty.setcbreak(self._input, termios.TCSADRAIN)
        mode = termios.tcgetattr(self._input)
        # Ctrl-Z is a key: the terminal is given back before the command stops.
        mode[6][termios.VSUSP] = os.fpathconf(self._input, "PC_VDISABLE").to_bytes(1)
        termios.tcsetattr(self._input, termios.TCSANOW, mode)
        self._write(_BEGIN)

    @_oserrors()
    def _give(self) -> None:
        try:
            self._write(_END)
        finally:
            termios.tcsetattr(self._input, termios.TCSAFLUSH, self._saved)

    def _stop(self) -> None:
        os.close(self._end)
        self._keys.join()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            # A thread has nobody else to report it.
            self._failure = error

    def _follow(self) -> None:
        size = self._current_size()
        while True:
            ready, _, _ = select.select([self._input, self._ending], [], [], _LOOK_S)
            if self._ending in ready:
                return
            if self._input in ready:
                data = b""
                # EIO where the terminal is gone: read(2).
                with suppress(OSError):
                    data = os.read(self._input, 64)
                if not data:
                    os.kill(os.getpid(), signal.SIGHUP)
                    return
                for key in _keys_of(data):
                    self._press(key)
                if self.has_quit:
                    # The main thread may be giving the terminal back: nothing is drawn behind that.
                    return
            if ready or self._current_size() != size:
                size = self._current_size()
                self._draw()

    def _current_size(self) -> os.terminal_size:
        """Its size; where it reports none, as a serial console, that of COLUMNS and LINES."""
        size = os.get_terminal_size(self._output)
        if size.columns and size.lines:
            return size
        known = shutil.get_terminal_size()
        return os.terminal_size((size.columns or known.columns, size.lines or known.lines))

    def _press(self, key: str) -> None:
        with self._lock:
            action = self._view.press(key)
            if action == "record":
                try:
                    text = self._record(self._shown) if self._shown else "nothing was measured yet"
                except KernelDelayError as error:
                    text = str(error)
                self._view.message = text
        if action == "quit" and not self.has_quit:
            self.has_quit = True
            # As Ctrl-C ends the window that is open, or the start of the first.
            quit_as_asked()
        elif action == "suspend":
            # A window that is over meanwhile is drawn after that.
            with self._lock:
                self._give()
                # This thread itself: otherwise it goes on until another one takes the signal.
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
                self._take()
                self._lines = ()

    def _draw(self, *, is_whole: bool = True) -> None:
        """Draw the lines that changed. Each key draws all: what others wrote there goes away."""
        size = self._current_size()
        with self._lock:
            if not self._view.frozen:
                self._shown = self._newest
            lines = self._view.lines(self._shown, size.columns, size.lines)
            known = [] if is_whole or size != self._size else self._lines
            self._size, self._lines = size, lines
            self._write(self._text(lines, known))

    def _text(self, lines: Sequence[Line], known: Sequence[Line]) -> str:
        # Cleared before it is written: behind a full line the cursor is on its last character.
        return "".join(
            f"\x1b[{row}H{_CLEAR_LINE}{self._styled(line)}"
            for row, line in enumerate(lines, 1)
            if known[row - 1 : row] != [line]
        )

    def _styled(self, line: Line) -> str:
        text, role = line
        if role is None or not self._has_color:
            return text
        return f"{_COLORS.get(role, _REVERSE)}{text}{_PLAIN}"

    def _write(self, text: str) -> None:
        left = text.encode(errors="replace")
        with naming("standard output"):
            while left:
                left = left[os.write(self._output, left) :]


def _keys_of(data: bytes) -> Iterator[str]:
    """The keys of what was read at once: an arrow is three bytes, Escape alone is one."""
    while data:
        name = _KEYS.get(data[:3])
        if name is not None:
            yield name
            data = data[3:]
        elif data[:1] == b"\x1b" and len(data) > 1:
            # Of another key, or of a mouse: not one of ours.
            return
        else:
            character = data.decode(errors="ignore")[:1] or "\0"
            yield character
            data = data[max(1, len(character.encode())) :]
