"""What stages are made of: processes that end with them, CPUs, cgroups, and toggles."""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.verdicts.names import ARGUMENTS, hidden, shown_name
from tests.verdicts.truth import NotHereError

CPU = max(os.sched_getaffinity(0))
"""Where a stage's processes meet that must share a CPU."""

# Nothing that a stage starts lives longer.
LIFE_S = 1800

# Who has not said that it is ready by then hangs.
START_S = 400.0

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

ROOT = Path(__file__).parents[2]

Role = Callable[..., None]


class Process:
    """A running process of a stage; `told` is what it said when it was ready."""

    def __init__(self, process: subprocess.Popen[bytes], reported: dict[str, int]) -> None:
        """Takes note."""
        self.pid = process.pid
        self.process = process
        self.reported = reported

    def ended(self) -> bool:
        """Whether it has."""
        return self.process.poll() is not None


@contextmanager
def running(
    role: Role,
    *arguments: object,
    name: str = "victim",
    within: tuple[str, ...] = (),
    cpu: int | None = None,
) -> Iterator[Process]:
    """Run a function of a stage's module as a process of its own, until the stage ends.

    It must tell() when it is ready. `name` is the process's. `within` is a command that becomes
    another, as chrt(1) does.
    """
    words = (sys.executable, "-m", "tests.verdicts.role")
    own = (role.__module__, role.__name__, name, *arguments)
    with program(*words, arguments=own, within=within, cpu=cpu) as process:
        yield process


@contextmanager
def workload(
    name: str, *arguments: object, within: tuple[str, ...] = (), cpu: int | None = None
) -> Iterator[Process]:
    """Run a C program of tests/workloads, until the stage ends; it tells when it is ready."""
    # Not for the roles, whose start it would make slow.
    from tests.workload import compile_workload

    with ExitStack() as stack:
        path = compile_workload(name, *(["-DHIDDEN_NAMES"] if hidden() else []))
        if hidden():
            folder = stack.enter_context(TemporaryDirectory())
            path = Path(shutil.copy(path, f"{folder}/service"))
        yield stack.enter_context(program(path, arguments=arguments, within=within, cpu=cpu))


@contextmanager
def program(
    *words: object,
    arguments: Sequence[object] = (),
    within: tuple[str, ...] = (),
    cpu: int | None = None,
    tells: bool = True,
    user: str | None = None,
    lives_s: int | None = LIFE_S,
) -> Iterator[Process]:
    """Run a program until the stage ends, and at most `lives_s`. All that it starts ends too.

    `arguments` follow the words. They are not on the command line where names are hidden.
    """
    environment = dict(os.environ)
    if hidden():
        environment[ARGUMENTS] = "\n".join(map(str, arguments))
    else:
        words = (*words, *arguments)

    def bounded() -> None:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if lives_s is not None:
            signal.alarm(lives_s)
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    process = subprocess.Popen(
        [*within, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if tells else subprocess.DEVNULL,
        stderr=None if tells else subprocess.DEVNULL,
        preexec_fn=bounded,
        cwd=ROOT,
        env=environment,
        user=user,
        process_group=0,
    )
    try:
        yield Process(process, _reported(process) if tells else {})
    finally:
        # A group, not a session: the scheduler would share a CPU out by sessions (sched_autogroup).
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _reported(process: subprocess.Popen[bytes]) -> dict[str, int]:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], START_S)[0]:
        raise NotHereError(f"{process.args!r} does not get ready")
    line = process.stdout.readline()
    if not line:
        raise NotHereError(f"{process.args!r} exited with {process.wait()}")
    reported: dict[str, Any] = json.loads(line)
    if "refused" in reported:
        raise NotHereError(reported["refused"])
    return reported


def tell(**values: object) -> None:
    """Say, in a role, that it is ready, and what the stage is to know."""
    print(json.dumps(values), flush=True)


def call_thread(name: str) -> None:
    """Name the calling thread, 15 characters at most."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, shown_name(name).encode(), 0, 0, 0)


def spin(seconds: float = LIFE_S) -> None:
    """Use a CPU that long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def hog() -> None:
    """A role: use all the CPU that there is to have."""
    tell()
    spin()


def thread_named(pid: int, name: str) -> int:
    """The id of the process's thread of that name."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        if Path(f"/proc/{pid}/task/{tid}/comm").read_bytes().strip() == name.encode():
            return int(tid)
    raise NotHereError(f"{pid} has no thread {name}")


def wait_until_traced(pid: int) -> None:
    """Wait until a tracer has attached itself to the process."""
    deadline = time.monotonic() + START_S
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        if time.monotonic() > deadline:
            raise NotHereError(f"nobody traces {pid}")
        time.sleep(0.02)
