"""Cgroups of a stage's own."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.verdicts.truth import NotHereError

CGROUPS = Path("/sys/fs/cgroup")


def controller(name: str) -> Path:
    """The root of a cgroup v1 hierarchy."""
    root = CGROUPS / name
    if not (root / "cgroup.procs").exists():
        raise NotHereError(f"no cgroup v1 hierarchy of {name} here")
    return root


def unified() -> Path:
    """The root of cgroup v2, which all kernels have beside v1's or instead."""
    for root in (CGROUPS, CGROUPS / "unified"):
        if (root / "cgroup.controllers").exists():
            return root
    raise NotHereError("cgroup v2 is not mounted here")


@contextmanager
def cgroup(parent: Path, *name: str, **settings: object) -> Iterator[Path]:
    """A cgroup of a stage's own, empty again when it ends. `cpu__max` sets cpu.max."""
    path = parent.joinpath(*(name or (f"verdict-{os.getpid()}",)))
    try:
        path.mkdir()
    except OSError as error:
        raise NotHereError(f"no new cgroup in {parent}: {error.strerror}") from error
    try:
        for file, value in settings.items():
            (path / file.replace("__", ".", 1)).write_text(str(value))
        yield path
    finally:
        deadline = time.monotonic() + 10
        while path.exists() and time.monotonic() < deadline:
            with suppress(OSError):
                path.rmdir()
            time.sleep(0.02)


@contextmanager
def cpu_quota(quota_us: int, period_us: int) -> Iterator[Path]:
    """A cgroup with a CPU quota, of v1 or else of v2."""
    if (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists() or (CGROUPS / "cpu").is_dir():
        settings = {"cpu__cfs_period_us": period_us, "cpu__cfs_quota_us": quota_us}
        with cgroup(controller("cpu"), **settings) as path:
            yield path
        return
    root = unified()
    if "cpu" not in (root / "cgroup.controllers").read_text().split():
        raise NotHereError("no cgroup controller of CPU quotas here")
    (root / "cgroup.subtree_control").write_text("+cpu")
    with cgroup(root, cpu__max=f"{quota_us} {period_us}") as path:
        yield path


def join(path: Path, pid: int) -> None:
    """Move a process into a cgroup."""
    (path / "cgroup.procs").write_text(str(pid))
