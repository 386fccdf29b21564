"""psql waits for its backend, which waits for a table that a stopped backend has locked."""

import os
import signal
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
        # It is not to be left behind, whatever becomes of the cluster.
        stack.callback(os.kill, holder, signal.SIGKILL)
        client = stack.enter_context(program(*psql(folder), "-c", LOCKS, tells=False))
        backend = wait_for_backend(folder, granted=False)
        os.kill(holder, signal.SIGSTOP)
        held = f'{holder} of the same program, "postgres: '
        names = (backend, "LOCK TABLE waiting", held, "was stopped all the time")
        yield Staged(client.pid, cause("wait_chain_end", names=names), options=("--chains",))
