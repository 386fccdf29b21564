"""Files and pipes of a stage's own."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

BIG_FILE = 64 * 1024 * 1024


@contextmanager
def big_file(size: int = BIG_FILE) -> Iterator[str]:
    """A file of that many bytes on a disk."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        yield file.name


@contextmanager
def fifo() -> Iterator[str]:
    """A named pipe."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/fifo"
        os.mkfifo(path)
        yield path
