"""Its session is nice as a whole (sched_autogroup), and another session's process is not."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.staging import CPU, hog, running
from tests.verdicts.truth import NotHereError, Staged, cause

ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")
NICE = 10


def in_session(nice: int) -> None:
    # Who leads a group can't leave its session.
    os.setpgid(0, os.getpgid(os.getppid()))
    os.setsid()
    Path("/proc/self/autogroup").write_text(str(nice))
    hog()


@contextmanager
def stage() -> Iterator[Staged]:
    if not ENABLED.exists() or ENABLED.read_text().strip() != "1":
        raise NotHereError("no sched_autogroup here")
    with (
        running(in_session, 0, name="hog", cpu=CPU) as other,
        running(in_session, NICE, cpu=CPU) as victim,
    ):
        names = ("hog", other.pid, "session")
        truth = cause("cpu_contention", names=names, also=("user_work",), pinned=True)
        yield Staged(victim.pid, truth)
