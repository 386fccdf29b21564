"""psql waits for its backend, which waits for a table that another, in a transaction, locked."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.verdicts.postgres import LOCKS, postgres, psql, table_locked, wait_for_backend
from tests.verdicts.staging import program
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with ExitStack() as stack:
        _, folder = stack.enter_context(postgres())
        holder = stack.enter_context(table_locked(folder))
        client = stack.enter_context(program(*psql(folder), "-c", LOCKS, tells=False))
        backend = wait_for_backend(folder, granted=False)
        truth = cause(
            "wait_chain_end",
            names=(backend, "LOCK TABLE waiting", "pg_blocking_pids()"),
            innocent=("of the same program", f"({holder})"),
        )
        yield Staged(client.pid, truth, options=("--chains",))
