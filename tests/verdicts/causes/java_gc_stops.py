"""A Java program whose collections of garbage stop its workers for most of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.programs import java
from tests.verdicts.truth import Staged, cause

HEAP = ("-XX:+UseSerialGC", "-Xmx60m", "-Xmn8m")


@contextmanager
def stage() -> Iterator[Staged]:
    with java(Path(__file__).parent / "GcStops.java", *HEAP) as process:
        yield Staged(
            process.pid,
            cause(
                "wait_futex",
                names=("worker-", "VM Thread", "safepoint"),
                also=("lock", "user_work"),
                innocent=("Service Thread", "Signal Dispatch", "the main thread"),
                acquits=True,
            ),
        )
