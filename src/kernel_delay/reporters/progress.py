"""A bar on the terminal while something that takes seconds is done."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from kernel_delay.ending import farewell

# Not worth a bar, nor the time that importing it takes.
FEW_STACKS = 200

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
        closing.enter_context(farewell(self._file.fileno(), WITHOUT_BAR))
        closing.enter_context(progress)
        self._stop = closing.close
        return lambda done: progress.update(task, completed=done)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
            self._update = self._stop = None
