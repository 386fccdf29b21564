"""Somebody stops it and has it go on, by turns."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import hog, running
from tests.verdicts.truth import Staged, cause
from tests.verdicts.turns import by_turns


@contextmanager
def stage() -> Iterator[Staged]:
    with running(hog) as victim:

        def stop() -> None:
            os.kill(victim.pid, signal.SIGSTOP)

        def go_on() -> None:
            os.kill(victim.pid, signal.SIGCONT)

        with by_turns(stop, go_on, 0.1):
            names = ("SIGSTOP", os.getpid())
            yield Staged(victim.pid, cause("stopped", names=names, also=("user_work",)))
