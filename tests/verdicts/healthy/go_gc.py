"""A Go program that makes garbage, a fifth of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.programs import go
from tests.verdicts.truth import HEALTHY, Staged


@contextmanager
def stage() -> Iterator[Staged]:
    with go(Path(__file__).parent / "garbage.go") as process:
        yield Staged(process.pid, HEALTHY)
