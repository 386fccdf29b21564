"""A file system of FUSE in a process that serves it, and a process that uses it."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.verdicts import fuse
from tests.verdicts.truth import NotHereError

# What a test that fails may take: more than any program needs beside many others. A tool that has
# 0.3 s of CPU time in all took 16 s beside 20 processes on two CPUs, and was runnable meanwhile.
FAILS_AFTER_S = 600


class Served(NamedTuple):
    """The server and its descriptor, the process that uses it, and a pipe with what that writes."""

    server: int
    connection: int
    client: int
    written: int


def child(does: Callable[[], None]) -> int:
    """Have a process do that, which ends without the test if need be."""
    pid = os.fork()
    if not pid:
        signal.alarm(FAILS_AFTER_S)
        try:
            does()
        finally:
            os._exit(1)
    return pid


@contextmanager
def served(
    folder: Path, serve: Callable[[int], None], use: Callable[[int], None], user: int = 0
) -> Iterator[Served]:
    """Mount it for that user; the test does not have the connection, so its server can end."""
    try:
        connection = fuse.mounted(str(folder), user)
    except (NotHereError, OSError) as error:
        pytest.skip(f"no FUSE here: {error}")
    written, writes = os.pipe()
    server = child(lambda: serve(connection))
    os.close(connection)
    client = child(lambda: use(writes))
    os.close(writes)
    try:
        yield Served(server, connection, client, written)
    finally:
        # Whoever waits for the server ends when that has ended.
        for pid in (server, client):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(written)
        fuse.unmount(str(folder))


def output_of(*words: object, codes: Collection[int] = (os.EX_OK,)) -> str:
    """What a program writes until its end, which is with one of those exit codes.

    It may wait for a server that does not answer. Then not even SIGKILL ends it, and nobody waits
    for it any longer.
    """
    with tempfile.TemporaryFile() as output:
        command = list(map(str, words))
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        code = process.wait(FAILS_AFTER_S / 2)
        output.seek(0)
        text = output.read().decode()
        assert code in codes, text
        return text
