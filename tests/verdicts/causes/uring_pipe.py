"""It waits in a ring of io_uring for what another process writes into a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes.pipe_writer import writer
from tests.verdicts.files import fifo
from tests.verdicts.staging import running, workload
from tests.verdicts.truth import NotHereError, Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        fifo() as path,
        running(writer, path, name="writer") as other,
        workload("uring", "reader", path) as process,
    ):
        if not process.reported["there"]:
            raise NotHereError("this kernel lets nobody have a ring of io_uring")
        yield Staged(process.pid, cause("wait_io_uring", names=(other.pid,)))
