"""Somebody holds a lock that is a futex without an owner's id, as Rust's are."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with workload("contended", "raw", "spin", 20_000) as victim:
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                "wait_futex",
                names=("owner", owner),
                also=("user_work",),
                acquits=True,
            ),
        )
