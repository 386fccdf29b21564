"""The owner of a mutex is in fsync(2) while it holds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from tests.verdicts.staging import workload
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        NamedTemporaryFile(dir="/var/tmp") as file,
        workload("contended", "mutex", "sync", 20_000, file.name) as victim,
    ):
        owner = victim.reported["owner"]
        yield Staged(
            victim.pid,
            cause(
                "lock",
                names=("owner", owner, "fsync"),
                # The owner's are true too, but no more than half of the story.
                also=("wait_disk", "wait_page_cache", "kernel_sleep", "kernel_work"),
            ),
        )
