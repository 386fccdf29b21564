"""Servers of other people, each on a CPU of its own, and their clients on another one."""

import contextlib
import os
import re
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kernel_delay.host.target import children_of
from tests.comparisons.loads import NGINX_PORT, nginx_configuration
from tests.workload import wait_until, youngest_descendant

_CONNECTIONS = 4


class Answers(NamedTuple):
    """How many requests were answered, and how long 99 % of them took at most, in µs."""

    requests: int
    p99_us: float


class Server(NamedTuple):
    """A running server.

    Attributes:
        pid: The process to measure, with its children.
        ask: Has clients send requests for a while, and waits for the answers.
    """

    pid: int
    ask: Callable[[], Answers]

    def cpu_ns(self) -> int:
        """Return how long its threads and its children's have run."""
        pids = [self.pid, *children_of(self.pid)]
        return sum(map(_ran_ns, pids)) + _waited_for_ns(self.pid)


@contextlib.contextmanager
def redis(folder: Path, call: str) -> Iterator[Server]:
    """A redis that answers "set" or "get" over a socket of its own, and stores nothing."""
    socket = folder / "redis"
    private = ("--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder)
    with _running("redis-server", *private) as pid:
        wait_until(socket.exists, "redis-server")
        count = 60_000
        client = ("redis-benchmark", "-s", socket, "-t", call, "-c", _CONNECTIONS, "-n", count)

        def ask() -> Answers:
            return Answers(count, redis_p99_us(_output(*client, "--csv")))

        yield Server(pid, ask)


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[Server]:
    """A nginx that sends a small file from the page cache; what is measured is its worker."""
    with _running("nginx", "-c", nginx_configuration(folder)) as pid:
        wait_until(lambda: youngest_descendant(pid) != pid, "nginx's worker")
        count = 15_000
        url = f"http://127.0.0.1:{NGINX_PORT}/"
        times = folder / "times"
        client = ("ab", "-q", "-k", "-c", _CONNECTIONS, "-n", count, "-e", times, url)

        def ask() -> Answers:
            said = _output(*client)
            assert "Non-2xx responses" not in said, said
            return Answers(count, ab_p99_us(times.read_text()))

        yield Server(youngest_descendant(pid), ask)


@contextlib.contextmanager
def postgres(folder: Path) -> Iterator[Server]:
    """A PostgreSQL whose sessions look up rows, one process for each."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    data = folder / "data"
    shutil.chown(folder, "postgres")
    initialise = (binaries / "initdb", "--no-sync", "--auth=trust", data)
    subprocess.run(initialise, check=True, user="postgres", cwd="/", stdout=subprocess.DEVNULL)
    server = (binaries / "postgres", "-D", data, "-k", folder, "-h", "")
    with _running(*server, user="postgres") as pid:
        client = (str(binaries / "pgbench"), "-h", str(folder), "-U", "postgres", "postgres")
        # Until it lets sessions in.
        tables = [*client, "-i", "-q"]
        wait_until(lambda: not subprocess.run(tables, capture_output=True).returncode)
        each, log = 4_000, folder / "log"
        options = ("-n", "-S", "-c", _CONNECTIONS, "-t", each, "-l", f"--log-prefix={log}")

        def ask() -> Answers:
            _output(*client, *options)
            texts = []
            for path in folder.glob("log.*"):
                texts.append(path.read_text())
                path.unlink()
            return Answers(each * _CONNECTIONS, pgbench_p99_us("".join(texts)))

        yield Server(pid, ask)


def redis_p99_us(text: str) -> float:
    """Read redis-benchmark's CSV: the seventh column of its last line, in ms."""
    words = text.strip().splitlines()[-1].replace('"', "").split(",")
    return float(words[6]) * 1000


def ab_p99_us(text: str) -> float:
    """Read the CSV of `ab -e`: a line for each percent, in ms."""
    found = re.search(r"^99,(\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1]) * 1000


def pgbench_p99_us(text: str) -> float:
    """Read pgbench's log: the third column is how long a transaction took, in µs."""
    took_us = [int(line.split()[2]) for line in text.splitlines()]
    return statistics.quantiles(took_us, n=100)[-1]


@contextlib.contextmanager
def _running(*command: object, user: str | None = None) -> Iterator[int]:
    cpu = str(max(os.sched_getaffinity(0)))
    process = subprocess.Popen(
        ["taskset", "--cpu-list", cpu, *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=user,
        cwd="/",
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _output(*command: object) -> str:
    cpu = str(min(os.sched_getaffinity(0)))
    words: Sequence[str] = ["taskset", "--cpu-list", cpu, *map(str, command)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _ran_ns(pid: int) -> int:
    # Documentation/scheduler/sched-stats.rst: the time on a CPU comes first.
    ran_ns = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            ran_ns += int(file.read_text().split()[0])
    return ran_ns


def _waited_for_ns(pid: int) -> int:
    """How long children ran that have ended: proc_pid_stat(5), cutime and cstime, in ticks."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[13]) + int(words[14])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
