"""How SIGINT, SIGTERM and SIGHUP end the tool: from a C handler, as Python's has to wait.

Python runs its handlers between two of its own steps. Reading a program's debug
information, or loading a program into the kernel, is one step. Where nothing of the tool
was compiled, recordings are read alone, and Python's handlers do.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask, valid_signals

try:
    from kernel_delay.host._signals import lib
except ModuleNotFoundError:

    class _InPython:
        """What is taken from C where that was not compiled: Python handles a signal as ever."""

        END_AT_ONCE = END_SOON = END_NOT = 0

        def signals_take(self) -> None:
            """Leave the handlers as they are."""

        def signals_give(self) -> None:
            """Leave the handlers as they are."""

        def signals_set(self, how: int) -> int:
            """Return how a signal ends the tool, which stays so."""
            return how

        def signals_wake(self, fd: int) -> None:
            """Wake nobody: nothing waits for signals."""

        def signals_noted(self) -> int:
            """Return 0: none is noted, as each ends the tool."""
            return 0

        def signals_set_shutdown_text(self, fd: int, text: bytes) -> None:
            """Write nothing: nothing is drawn that would have to be taken away."""

        def signals_set_shutdown_modes(self, fd: int) -> int:
            """Give none back: Python's handlers do."""
            return 0

        def signals_quit(self) -> None:
            """End as SIGINT does."""
            os.kill(os.getpid(), SIGINT)

    lib = _InPython()  # type: ignore[assignment]


@contextmanager
def signals_end() -> Iterator[None]:
    """End the tool at once, its status 128 + the signal's number, while this is entered."""
    lib.signals_take()
    try:
        yield
    finally:
        lib.signals_give()


@contextmanager
def signals_end_waits(wakeup: int) -> Iterator[None]:
    """Note the first signal instead, and write a byte to the descriptor `wakeup`.

    The second one ends the tool, at once.
    """
    with signals_end():
        so_far = lib.signals_set(lib.END_NOT)
        lib.signals_wake(wakeup)
        try:
            yield
        finally:
            lib.signals_wake(-1)
            lib.signals_set(so_far)


@contextmanager
def signals_end_soon() -> Iterator[None]:
    """Within signals_end_waits(), leave less than a second to what is done here."""
    so_far = lib.signals_set(lib.END_SOON)
    try:
        yield
    finally:
        lib.signals_set(so_far)


def noted_signal() -> int:
    """The number of that signal, 0 if there was none."""
    return int(lib.signals_noted())


def noted() -> bool:
    """Whether a signal was noted that did not end the tool."""
    return bool(lib.signals_noted())


@contextmanager
def shutdown_text(fd: int, text: str) -> Iterator[None]:
    """Have `text`, 32 bytes at most, written to `fd` should a signal end the tool in here."""
    lib.signals_set_shutdown_text(fd, text.encode())
    try:
        yield
    finally:
        lib.signals_set_shutdown_text(fd, b"")


@contextmanager
def shutdown_modes(fd: int) -> Iterator[None]:
    """Have the terminal `fd` get its modes of now back should a signal end the tool in here.

    Raises OSError where it is none.
    """
    if error := lib.signals_set_shutdown_modes(fd):
        raise OSError(-error, os.strerror(-error))
    try:
        yield
    finally:
        lib.signals_set_shutdown_modes(-1)


def quit_as_asked() -> None:
    """End as SIGINT would, but with status 0: a key asked for it."""
    lib.signals_quit()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Have threads that begin here leave signals to the main one: theirs are their children's."""
    before = pthread_sigmask(SIG_BLOCK, valid_signals())
    try:
        yield
    finally:
        pthread_sigmask(SIG_SETMASK, before)
