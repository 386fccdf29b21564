"""A Java program that makes garbage, half of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.programs import java
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with java(Path(__file__).parent / "JavaGarbage.java") as process:
        yield Staged(process.pid, HEALTHY)
