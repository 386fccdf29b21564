"""Another thread of a Java program holds a monitor, and sleeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.programs import java
from tests.verdicts.staging import thread_named
from tests.verdicts.truth import Staged, cause

SOURCE = Path(__file__).parent / "Monitor.java"


@contextmanager
def stage() -> Iterator[Staged]:
    with java(SOURCE) as process:
        owner = thread_named(process.pid, "owner")
        yield Staged(
            process.pid,
            cause("lock", "wait_futex", names=("owner", owner)),
        )
