"""A PostgreSQL of the stage's own, and its sessions."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.programs import installed, wait_for
from tests.verdicts.staging import LIFE_S, START_S, Process, program
from tests.verdicts.truth import NotHereError

USER = "postgres"

LOCKS = "BEGIN; LOCK TABLE orders"
"""Ends when no other session has the table."""

# The session has nothing else to do then, and keeps the lock.
HOLDS = f"{{ echo '{LOCKS};'; sleep {LIFE_S}; }} | "


@contextmanager
def postgres() -> Iterator[tuple[Process, str]]:
    """Run a cluster; its folder has the socket."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not binaries:
        raise NotHereError("PostgreSQL is not installed: setup/packages-verdicts.txt has it")
    with TemporaryDirectory() as folder:
        shutil.chown(folder, USER)
        data = f"{folder}/data"
        initialise = (binaries[-1] / "initdb", "--no-sync", "--auth=trust", data)
        subprocess.run(initialise, check=True, user=USER, cwd="/", stdout=subprocess.DEVNULL)
        command = (binaries[-1] / "postgres", "-D", data, "-k", folder, "-h", "")
        with program(*command, tells=False, user=USER) as process:
            wait_for(Path(folder) / ".s.PGSQL.5432", process)
            _wait_until_it_answers(folder)
            yield process, folder


def _wait_until_it_answers(folder: str) -> None:
    """Wait until sessions are let in: the socket is there while it starts up."""
    deadline = time.monotonic() + START_S
    asks = (*psql(folder), "-c", "SELECT 1")
    while subprocess.run(asks, capture_output=True).returncode:
        if time.monotonic() > deadline:
            raise NotHereError("PostgreSQL lets no session in")
        time.sleep(0.05)


def psql(folder: str) -> tuple[str, ...]:
    """The command of a session."""
    return (installed("psql"), "-h", folder, "-U", USER, "-qAt", "-d", "postgres")


def ask(folder: str, statement: str) -> str:
    """Return what a statement does."""
    command = (*psql(folder), "-c", statement)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def wait_for_backend(folder: str, *, granted: bool) -> int:
    """Wait until a session has the lock of the table, or waits for it; return its backend."""
    which = "" if granted else "NOT "
    statement = (
        f"SELECT pid FROM pg_locks WHERE relation = 'orders'::regclass AND {which}granted"
        " AND mode = 'AccessExclusiveLock'"
    )
    deadline = time.monotonic() + START_S
    while not (pid := ask(folder, statement)):
        if time.monotonic() > deadline:
            raise NotHereError("no session gets that far")
        time.sleep(0.05)
    return int(pid)


@contextmanager
def table_locked(folder: str) -> Iterator[int]:
    """Have a session lock a table, and do nothing then; yield its backend."""
    ask(folder, "CREATE TABLE IF NOT EXISTS orders (id int)")
    with program("sh", "-c", f'{HOLDS} "$@"', "sh", *psql(folder), tells=False):
        yield wait_for_backend(folder, granted=True)
