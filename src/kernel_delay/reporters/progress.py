"""A bar on the terminal while something that takes seconds is done."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from kernel_delay.formatting import NS_PER_S, printable
from kernel_delay.host.signals import shutdown_text

# Not worth a bar, nor the time that importing it takes.
FEW_STACKS = 200

SHORT_WINDOW_NS = 2_000_000_000

# To the line's begin, erase it, show the cursor: ECMA-48, and xterm's DECTCEM.
WITHOUT_BAR = "\r\x1b[2K\x1b[?25h"


@contextmanager
def stack_progress(file: TextIO | None) -> Iterator[Callable[[int, int], None]]:
    """Give what is to be called with how many stacks are named, and of how many.

    It draws on `file` if that is a terminal, and if there are many.
    """
    if file is None or not file.isatty():
        yield lambda done, total: None
        return
    bar = _Bar(file)
    try:
        yield bar.update
    finally:
        bar.stop()


@contextmanager
def window_progress(
    file: TextIO | None, sample_time_ns: int, threads: Callable[[], str]
) -> Iterator[Callable[[int], None] | None]:
    """Give what is to be called with how much of a window is left, and with 0 when it is over.

    It draws on `file`, with what `threads` says of the threads so far. None: there is nothing
    to draw, as `file` is no terminal, or nobody waits for so short a window.
    """
    if file is None or not file.isatty() or sample_time_ns <= SHORT_WINDOW_NS:
        yield None
        return
    # Before any window opens: what takes time within one, takes it from what is measured.
    from rich import progress  # noqa: F401

    line = _WindowLine(file, sample_time_ns, threads)
    try:
        yield line.update
    finally:
        line.stop()


class _WindowLine:
    def __init__(self, file: TextIO, sample_time_ns: int, threads: Callable[[], str]) -> None:
        self._file = file
        self._sample_time_ns = sample_time_ns
        self._threads = threads
        self._drawing: _Drawing | None = None

    def update(self, left_ns: int) -> None:
        if left_ns <= 0:
            self.stop()
            return
        if self._drawing is None:
            self._drawing = _Drawing(self._file, self._sample_time_ns)
        done_ns = max(0, self._sample_time_ns - left_ns)
        left = f"{-(-left_ns // NS_PER_S)} s left"
        self._drawing.draw(done_ns, f"{left}: {printable(self._threads())}")

    def stop(self) -> None:
        if self._drawing is not None:
            self._drawing.close()
            self._drawing = None


class _Drawing:
    """The line, from its first drawing until it is erased; drawn on request, by no thread."""

    def __init__(self, file: TextIO, whole: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (BarColumn(20), TextColumn("{task.description}", markup=False))
        console = Console(file=file)
        self._progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=whole)
        self._closing = ExitStack()
        self._closing.enter_context(shutdown_text(file.fileno(), WITHOUT_BAR))
        self._closing.enter_context(self._progress)

    def draw(self, done: int, description: str) -> None:
        self._progress.update(self._task, completed=done, description=description)
        self._progress.refresh()

    def close(self) -> None:
        self._closing.close()


class _Bar:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._update: Callable[[int], None] | None = None
        self._stop: Callable[[], None] | None = None

    def update(self, done: int, total: int) -> None:
        if total < FEW_STACKS:
            return
        if self._update is None:
            self._update = self._start(total)
        self._update(done)
        if done == total:
            self.stop()

    def _start(self, total: int) -> Callable[[int], None]:
        from rich.console import Console
        from rich.progress import Progress

        progress = Progress(console=Console(file=self._file), transient=True)
        task = progress.add_task("unwinding stacks", total=total)
        closing = ExitStack()
        closing.enter_context(shutdown_text(self._file.fileno(), WITHOUT_BAR))
        closing.enter_context(progress)
        self._stop = closing.close
        return lambda done: progress.update(task, completed=done)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
            self._update = self._stop = None
