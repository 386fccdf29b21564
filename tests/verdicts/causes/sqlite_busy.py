"""It tries to write to a database of SQLite that another process has a transaction on."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from tests.verdicts.staging import LIFE_S, running, tell
from tests.verdicts.truth import Staged, cause


def opened(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=LIFE_S, isolation_level=None)


def holder(path: str) -> None:
    connection = opened(path)
    connection.execute("CREATE TABLE jobs (id)")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("INSERT INTO jobs VALUES (1)")
    tell()
    signal.pause()


def victim(path: str) -> None:
    connection = opened(path)
    tell()
    connection.execute("INSERT INTO jobs VALUES (2)")


@contextmanager
def stage() -> Iterator[Staged]:
    with (
        TemporaryDirectory() as folder,
        running(holder, path := f"{folder}/jobs.db", name="holder") as other,
        running(victim, path) as process,
    ):
        truth = cause("file_lock_polled", names=(other.pid, "jobs.db"))
        yield Staged(process.pid, truth)
