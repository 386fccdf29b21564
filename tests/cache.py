"""Where the tests keep what is slow to fetch or build: outside the repository, by version."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """The cache's folder, made if need be (XDG Base Directory Specification, $XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "kernel-delay"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock `name`, so that two test runs don't fill one folder at once."""
    with open(cache_dir() / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
