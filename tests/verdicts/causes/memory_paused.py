"""The memory limit of its cgroup is reached, and nothing is killed to make room (cgroup v1)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.cgroups import cgroup, controller, join
from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

LIMIT = 32 << 20


def victim(group: str) -> None:
    join(Path(group), os.getpid())
    tell()
    kept = []
    while True:
        kept.append(bytes(1 << 16))


@contextmanager
def stage() -> Iterator[Staged]:
    settings = {"memory__limit_in_bytes": LIMIT, "memory__oom_control": 1}
    with (
        cgroup(controller("memory"), **settings) as group,
        running(victim, str(group)) as process,
    ):
        yield Staged(process.pid, cause("wait_reclaim", names=("memory.oom_control",)))
