"""What is done and undone by turns."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def by_turns(
    act: Callable[[], object], undo: Callable[[], object], seconds: float
) -> Iterator[None]:
    """Act, and undo it, each for so many seconds, until the block ends: then it is undone."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            act()
            over.wait(seconds)
            undo()
            over.wait(seconds)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
