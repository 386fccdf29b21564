"""A shell waits for its flock(1); another shell has the lock, and waits for a stopped child."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile

from kernel_delay.host.target import PROC, children_of, read_comm
from tests.verdicts.truth import Staged, cause
from tests.workload import wait_until

HOLDER = 'exec 9>"$0"; flock 9; echo locked; sleep 600; :'
WAITER = 'exec 9>"$0"; flock 9; :'


@contextmanager
def stage() -> Iterator[Staged]:
    with NamedTemporaryFile() as file:
        holder = shell(HOLDER, file.name)
        waiter = None
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            wait_until(lambda: comms(holder.pid) == ["sleep"])
            (sleeper,) = children_of(holder.pid)
            os.kill(sleeper, signal.SIGSTOP)
            waiter = shell(WAITER, file.name)
            wait_until(lambda: comms(waiter.pid) == ["flock"])
            truth = cause("wait_chain", names=(sleeper, "was stopped"))
            yield Staged(waiter.pid, truth, options=("--chains",))
        finally:
            for each in filter(None, (waiter, holder)):
                os.killpg(each.pid, signal.SIGKILL)
                each.communicate()


def shell(script: str, path: str) -> subprocess.Popen[str]:
    """Start a shell with the file's path as its $0, in a session of its own."""
    words = ["bash", "-c", script, path]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)


def comms(pid: int) -> list[str]:
    """The names of its children: of one that has just begun it is the shell's."""
    return [read_comm(PROC / str(child)) for child in children_of(pid)]
