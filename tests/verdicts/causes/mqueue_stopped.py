"""It receives from a POSIX message queue whose only other user is stopped by a signal."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.causes import mqueue
from tests.verdicts.staging import running
from tests.verdicts.truth import Staged, cause


@contextmanager
def stage() -> Iterator[Staged]:
    with running(mqueue.victim, name="mqueue") as process:
        sender = process.reported["by"]
        os.kill(sender, signal.SIGSTOP)
        names = (sender, "the POSIX queue shared with", "was stopped")
        yield Staged(process.pid, cause("wait_semaphore", names=names))
