"""Where the tests keep what is slow to fetch or build: outside the repository, by version."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
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


def built(name: str, make: Callable[[Path], object], *inputs: object) -> Path:
    """The folder that `make` fills, once for these inputs: of files the content counts.

    A guest sees the host's cache, so what was built here need not be built again there,
    where a compiler takes half a minute.
    """
    digest = hashlib.sha256()
    for item in inputs:
        digest.update(item.read_bytes() if isinstance(item, Path) else repr(item).encode())
    folder = cache_dir() / "built" / f"{name}-{digest.hexdigest()[:16]}"
    done = folder / ".built"
    if done.exists():
        return folder
    with locked("built"):
        # Others may have filled it meanwhile, and use it by now.
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            make(folder)
            done.touch()
    return folder
