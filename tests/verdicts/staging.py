"""What stages are made of: processes that end with them, CPUs, cgroups, and toggles."""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cache import built
from tests.verdicts.truth import NotHereError

CPU = max(os.sched_getaffinity(0))
"""Where a stage's processes meet that must share a CPU."""

# Nothing that a stage starts lives longer.
LIFE_S = 180

# Who has not said that it is ready by then hangs.
START_S = 60.0

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15

ROOT = Path(__file__).parents[2]

Role = Callable[..., None]


class Process:
    """A running process of a stage; `told` is what it said when it was ready."""

    def __init__(self, process: subprocess.Popen[bytes], told: dict[str, int]) -> None:
        """Takes note."""
        self.pid = process.pid
        self.process = process
        self.told = told

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
    words = (sys.executable, "-m", "tests.verdicts.role", role.__module__, role.__name__, name)
    with program(*words, *arguments, within=within, cpu=cpu) as process:
        yield process


@contextmanager
def workload(
    name: str, *arguments: object, within: tuple[str, ...] = (), cpu: int | None = None
) -> Iterator[Process]:
    """Run a C program of tests/workloads, until the stage ends; it tells when it is ready."""
    # Not for the roles, whose start it would make slow.
    from tests.integration.capture.workload import compile_workload

    with program(compile_workload(name), *arguments, within=within, cpu=cpu) as process:
        yield process


@contextmanager
def program(
    *words: object,
    within: tuple[str, ...] = (),
    cpu: int | None = None,
    tells: bool = True,
    user: str | None = None,
    lives_s: int | None = LIFE_S,
) -> Iterator[Process]:
    """Run a program until the stage ends, and at most `lives_s`. All that it starts ends too."""

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
        user=user,
        start_new_session=True,
    )
    try:
        yield Process(process, _told(process) if tells else {})
    finally:
        # Its process group: a session of its own.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _told(process: subprocess.Popen[bytes]) -> dict[str, int]:
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], START_S)[0]:
        raise NotHereError(f"{process.args!r} does not get ready")
    line = process.stdout.readline()
    if not line:
        raise NotHereError(f"{process.args!r} exited with {process.wait()}")
    told: dict[str, Any] = json.loads(line)
    if "refused" in told:
        raise NotHereError(told["refused"])
    return told


def tell(**values: object) -> None:
    """Say, in a role, that it is ready, and what the stage is to know."""
    print(json.dumps(values), flush=True)


def call_thread(name: str) -> None:
    """Name the calling thread, 15 characters at most."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def spin(seconds: float = LIFE_S) -> None:
    """Use a CPU that long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def hog() -> None:
    """A role: use all the CPU that there is to have."""
    tell()
    spin()


def by_turns(act: Callable[[], object], undo: Callable[[], object], seconds: float) -> "ByTurns":
    """Act and undo it, by turns, each for so many seconds, until the block ends: undone."""
    return ByTurns(act, undo, seconds)


class ByTurns:
    """A context manager: a thread that acts and undoes."""

    def __init__(
        self, act: Callable[[], object], undo: Callable[[], object], seconds: float
    ) -> None:
        """Takes note."""
        self._act, self._undo, self._seconds = act, undo, seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            self._act()
            self._over.wait(self._seconds)
            self._undo()
            self._over.wait(self._seconds)

    def __enter__(self) -> None:
        """Begin."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End, with what was done undone."""
        self._over.set()
        self._thread.join()
        self._undo()


CGROUPS = Path("/sys/fs/cgroup")


def controller(name: str) -> Path:
    """The root of a cgroup v1 hierarchy."""
    root = CGROUPS / name
    if not (root / "cgroup.procs").exists():
        raise NotHereError(f"no cgroup v1 hierarchy of {name} here")
    return root


def unified() -> Path:
    """The root of cgroup v2, which all kernels have beside v1's or instead."""
    for root in (CGROUPS, CGROUPS / "unified"):
        if (root / "cgroup.controllers").exists():
            return root
    raise NotHereError("cgroup v2 is not mounted here")


@contextmanager
def cgroup(parent: Path, **settings: object) -> Iterator[Path]:
    """A cgroup of a stage's own, empty again when it ends. `cpu__max` sets cpu.max."""
    path = parent / f"verdict-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        raise NotHereError(f"no new cgroup in {parent}: {error.strerror}") from error
    try:
        for name, value in settings.items():
            (path / name.replace("__", ".", 1)).write_text(str(value))
        yield path
    finally:
        deadline = time.monotonic() + 10
        while path.exists() and time.monotonic() < deadline:
            with suppress(OSError):
                path.rmdir()
            time.sleep(0.02)


@contextmanager
def cpu_quota(quota_us: int, period_us: int) -> Iterator[Path]:
    """A cgroup with a CPU quota, of v1 or else of v2."""
    if (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists() or (CGROUPS / "cpu").is_dir():
        settings = {"cpu__cfs_period_us": period_us, "cpu__cfs_quota_us": quota_us}
        with cgroup(controller("cpu"), **settings) as path:
            yield path
        return
    root = unified()
    if "cpu" not in (root / "cgroup.controllers").read_text().split():
        raise NotHereError("no cgroup controller of CPU quotas here")
    (root / "cgroup.subtree_control").write_text("+cpu")
    with cgroup(root, cpu__max=f"{quota_us} {period_us}") as path:
        yield path


def join(path: Path, pid: int) -> None:
    """Move a process into a cgroup."""
    (path / "cgroup.procs").write_text(str(pid))


def thread_named(pid: int, name: str) -> int:
    """The id of the process's thread of that name."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        if Path(f"/proc/{pid}/task/{tid}/comm").read_text().strip() == name:
            return int(tid)
    raise NotHereError(f"{pid} has no thread {name}")


def wait_until_traced(pid: int) -> None:
    """Wait until a tracer has attached itself to the process."""
    deadline = time.monotonic() + START_S
    while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
        if time.monotonic() > deadline:
            raise NotHereError(f"nobody traces {pid}")
        time.sleep(0.02)


@contextmanager
def java(source: Path) -> Iterator[Process]:
    """Compile and run a Java class; it tells when it is ready."""

    def make(folder: Path) -> None:
        subprocess.run([installed("javac"), "-d", folder, source], check=True)

    classes = built(source.stem, make, source)
    with program(installed("java"), "-cp", classes, source.stem) as process:
        yield process


@contextmanager
def go(source: Path) -> Iterator[Process]:
    """Compile and run a Go program; it tells when it is ready."""

    def make(folder: Path) -> None:
        environment = {**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"}
        command = [installed("go"), "build", "-o", folder / source.stem, source]
        subprocess.run(command, check=True, env=environment)

    with program(built(source.stem, make, source) / source.stem) as process:
        yield process


def installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotHereError(f"{name} is not installed: setup/packages-verdicts.txt has it")
    return path


BIG_FILE = 64 * 1024 * 1024


@contextmanager
def big_file() -> Iterator[str]:
    """A file of BIG_FILE bytes on a disk."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        for _ in range(BIG_FILE >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        yield file.name


@contextmanager
def fifo() -> Iterator[str]:
    """A named pipe."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/fifo"
        os.mkfifo(path)
        yield path


@contextmanager
def redis() -> Iterator[tuple[Process, Path]]:
    """A Redis of the stage's own, and its Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "socket"
        options = ("--port", 0, "--unixsocket", path, "--dir", folder, "--save", "")
        with program(installed("redis-server"), *options, tells=False) as process:
            wait_for(path, process)
            yield process, path


def wait_for(path: Path, process: Process) -> None:
    """Wait until a server has made its socket."""
    deadline = time.monotonic() + START_S
    while not path.exists():
        if process.process.poll() is not None or time.monotonic() > deadline:
            raise NotHereError(f"{process.process.args!r} does not serve")
        time.sleep(0.02)
