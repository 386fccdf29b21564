"""PostgreSQL by --children, nginx by --comm: an account each, and who is kept is named.

/proc/PID/schedstat is the oracle, read around the window; the worker that is kept shares its CPU
with a hog.
"""

import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from kernel_delay.analysis.processes import as_one
from kernel_delay.analysis.states import worst_first
from kernel_delay.model import Sample, ThreadTime
from kernel_delay.where import Where
from tests import commands
from tests.gdb_frames import frames_by_gdb
from tests.workload import wait_until

HOG = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"
FIRST_CPU, *_, LAST_CPU = sorted(os.sched_getaffinity(0)) * 2

# Of a thread, in a summary of several processes.
ROW = re.compile(r" *\d+ ( +\d+\.\d){6} \|")

# A switch is seen a moment after the scheduler's clock was read.
SLACK_NS = 5_000_000


class SchedStat(NamedTuple):
    """What a thread ran and waited, and when that was read."""

    run_ns: int
    ready_ns: int
    read_ns: int


def schedstat(tid: int) -> SchedStat:
    """Of a process's first thread (Documentation/scheduler/sched-stats.rst)."""
    run_ns, ready_ns, _ = Path(f"/proc/{tid}/schedstat").read_text().split()
    return SchedStat(int(run_ns), int(ready_ns), time.monotonic_ns())


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """What a test starts, ended with the test."""
    with ExitStack() as stack:
        yield stack


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(closing: ExitStack) -> Start:
    """Start a program that ends with the test."""

    def start_one(*command: object, user: str | None = None) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user
        )
        closing.callback(process.wait)
        closing.callback(process.terminate)
        return process

    return start_one


@pytest.fixture
def folder(closing: ExitStack) -> Path:
    """A folder that any user may look into."""
    path = Path(closing.enter_context(tempfile.TemporaryDirectory()))
    path.chmod(0o755)
    return path


def children(pid: int) -> list[int]:
    """Of a process without other threads."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def cmdline(pid: int) -> str:
    """Its command line, or the title it gave itself; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kept_by_a_hog(start: Start, worker: int, others: Iterable[int]) -> int:
    """Have the worker share its CPU with a hog, and the others another one; the hog's PID."""
    for other in others:
        os.sched_setaffinity(other, {FIRST_CPU})
    hogs = [start("taskset", "-c", LAST_CPU, sys.executable, "-c", HOG) for _ in range(3)]
    os.sched_setaffinity(worker, {LAST_CPU})
    return hogs[0].pid


class Measured(NamedTuple):
    """A second of several processes: the Sample of each by its PID, what was printed, and kept."""

    samples: dict[int, Sample]
    summary: str
    recording: Path


def measured(folder: Path, *options: object) -> Measured:
    """Capture a second."""
    file, recording = folder / "json", folder / "a.kdr"
    done = commands.run(
        *("--sample-time", "1", "--summary", "--json", file, "-o", recording, *options)
    )
    assert done.returncode == 0, done.stderr
    samples = [msgspec.json.decode(line, type=Sample) for line in file.read_bytes().splitlines()]
    assert {sample.processes for sample in samples} == {len(samples)}
    return Measured({each.target.pid: each for each in samples}, done.stdout, recording)


def check_text(samples: dict[int, Sample], live: str, recording: Path, titled: str) -> None:
    """All processes are one report, worst first, by their titles; a recording has the same."""
    assert live.count("# Start sampling") == 1
    rows = [line for line in live.splitlines() if ROW.match(line)]
    order = [thread.tid for thread in worst_first(as_one(list(samples.values())))]
    shown = [int(row.split()[0]) for row in rows]
    assert shown == [tid for tid in order if tid in shown]
    assert any(titled in row for row in rows), rows
    findings = [each for sample in samples.values() for each in sample.verdict if not each.remark]
    worst = max(findings, key=lambda finding: finding.share)
    verdicts = [line for line in live.splitlines() if line.startswith("# VERDICT: ")]
    assert verdicts[0].startswith(f"# VERDICT: process {worst.tid} (")
    done = commands.run("report", "--summary", recording)
    assert done.returncode == 0, done.stderr
    assert done.stdout == live


def check_accounts(
    samples: dict[int, Sample], before: dict[int, SchedStat], after: dict[int, SchedStat]
) -> None:
    """Each thread's time is the window; what it ran and waited is what the kernel counted."""
    for pid, sample in samples.items():
        for thread in sample.threads:
            assert thread.time is not None
            parts = [getattr(thread.time, part) for part in ThreadTime.__struct_fields__]
            assert sum(parts) == sample.window.duration_ns
        if pid not in before or pid not in after:
            continue
        (thread,) = sample.threads
        assert thread.time is not None
        its = thread.time
        running_ns = its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns
        window = sample.window
        beside_ns = window.start_ns - before[pid].read_ns + after[pid].read_ns - window.stop_ns
        unknown_ns = its.unaccounted_ns + SLACK_NS
        for found_ns, counted_ns in (
            (running_ns, after[pid].run_ns - before[pid].run_ns),
            (its.ready_ns, after[pid].ready_ns - before[pid].ready_ns),
        ):
            assert counted_ns - beside_ns - unknown_ns <= found_ns <= counted_ns + SLACK_NS


def check_verdict(samples: dict[int, Sample], worker: int) -> None:
    """The worker is said to have been kept, by its name and PID.

    On a busy machine the others may be kept as well: check_accounts() tells whether that is so.
    """
    sample = samples[worker]
    findings = [finding for finding in sample.verdict if finding.rule == "cpu_contention"]
    assert findings, sample.verdict
    assert findings[0].tid == worker
    assert f"{sample.target.comm} ({worker})" in findings[0].text


class Postgres(NamedTuple):
    """A cluster that ends with the test, with pgbench's tables; `folder` has its socket."""

    server: int
    folder: Path
    binaries: Path

    def client(self, program: str) -> tuple[object, ...]:
        """The command of a client of it, to which arguments can be added."""
        return self.binaries / program, "-h", self.folder, "-U", "postgres", "postgres"

    def backends(self, doing: str = "") -> list[int]:
        """The processes of its clients whose title says so."""
        titled = {pid: cmdline(pid) for pid in children(self.server)}
        return [
            pid for pid in titled if "postgres postgres" in titled[pid] and doing in titled[pid]
        ]


@pytest.fixture
def postgres(start: Start, folder: Path) -> Postgres:
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    assert binaries, "setup/packages-servers.txt is not installed: make packages-servers"
    data = folder / "data"
    data.mkdir()
    shutil.chown(data, "postgres")
    shutil.chown(folder, "postgres")
    initialise = (binaries[-1] / "initdb", "--no-sync", "--auth=trust", data)
    subprocess.run(initialise, check=True, user="postgres", cwd="/", stdout=subprocess.DEVNULL)
    server = start(binaries[-1] / "postgres", "-D", data, "-k", folder, "-h", "", user="postgres")
    wait_until((folder / ".s.PGSQL.5432").exists, "the server")
    found = Postgres(server.pid, folder, binaries[-1])
    tables = [*map(str, found.client("pgbench")), "-i", "-q"]
    # Until it takes connections.
    wait_until(lambda: not subprocess.run(tables, capture_output=True).returncode)
    return found


def test_postgres_by_its_children(start: Start, postgres: Postgres, tmp_path: Path) -> None:
    start(*postgres.client("pgbench"), "-S", "-c", 3, "-T", 60)
    wait_until(lambda: len(postgres.backends()) == 3, "the clients")
    worker, *others = postgres.backends()
    kept_by_a_hog(start, worker, others)
    before = {pid: schedstat(pid) for pid in (postgres.server, *children(postgres.server))}

    samples, summary, recording = measured(tmp_path, "--pid", postgres.server, "--children")

    after = {pid: schedstat(pid) for pid in before}
    assert set(samples) >= set(before)
    assert {sample.target.comm for sample in samples.values()} == {"postgres"}
    check_accounts(samples, before, after)
    check_verdict(samples, worker)
    check_text(samples, summary, recording, "postgres: postgres postgres [local]")


CLIENTS = 6
LOCK = "BEGIN; LOCK TABLE pgbench_branches IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(120)"
UPDATE = "UPDATE pgbench_branches SET bbalance = 1"


def test_backends_waiting_for_a_lock_are_not_called_healthy(
    start: Start, postgres: Postgres, tmp_path: Path
) -> None:
    psql = postgres.client("psql")
    start(*psql, "-c", LOCK)
    wait_until(lambda: len(postgres.backends("SELECT")) == 1, "the owner of the lock")
    for _ in range(CLIENTS):
        start(*psql, "-c", UPDATE)
    wait_until(lambda: len(postgres.backends("UPDATE waiting")) == CLIENTS, "the clients")
    stalled = postgres.backends("UPDATE waiting")

    samples, summary, _ = measured(tmp_path, "--pid", postgres.server, "--children")

    # PostgreSQL wakes one up once, to look for a deadlock.
    for pid in stalled:
        (found,) = (each for each in samples[pid].verdict if each.rule == "asleep")
        assert not found.remark
        assert found.text.startswith(f"the main thread postgres ({pid}) slept in epoll_wait for")
        assert "By its title it waits for a lock." in found.details
    assert "nothing kept" not in summary
    said = [line for line in summary.splitlines() if line.startswith(("# VERDICT", "# REMARK"))]
    (stalls,) = (line for line in said if "UPDATE waiting" in line)
    assert f" The same in {CLIENTS - 1} other processes: " in stalls
    assert "pg_blocking_pids()" in stalls
    # A busy machine may keep another process from a CPU.
    if all(
        finding.remark or finding.rule == "asleep"
        for each in samples.values()
        for finding in each.verdict
    ):
        # The server's own processes wait for work, as the owner of the lock does.
        waiting = len(samples) - CLIENTS
        assert said[1].startswith(f"# REMARK: {waiting} processes only waited, for ")
        assert len(said) == 2
    alone = commands.run("--pid", stalled[0], "--sample-time", "1")
    (first, *_) = (line for line in alone.stdout.splitlines() if line.startswith("# VERDICT"))
    assert 'is "postgres postgres [local] UPDATE waiting"' in first


def test_where_a_backend_waits_gdb_sees_the_same_frames(start: Start, postgres: Postgres) -> None:
    psql = postgres.client("psql")
    start(*psql, "-c", LOCK)
    wait_until(lambda: len(postgres.backends("SELECT")) == 1, "the owner of the lock")
    start(*psql, "-c", UPDATE)
    wait_until(lambda: len(postgres.backends("UPDATE waiting")) == 1, "the client")
    (waiting,) = postgres.backends("UPDATE waiting")
    # Once it has looked for a deadlock nobody wakes it.
    time.sleep(2)

    done = commands.run("where", "--pid", waiting, "--json")

    (process,) = msgspec.json.decode(done.stdout, type=Where).processes
    (thread,) = process.threads
    assert "ProcSleep" in [frame.name for frame in thread.user]
    assert [frame.address for frame in thread.user] == frames_by_gdb(waiting)[waiting]


def test_nginx_by_its_name(start: Start, folder: Path, tmp_path: Path) -> None:
    port = 18_080
    assert shutil.which("nginx"), "setup/packages-servers.txt is not installed"
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 2; pid {folder}/pid; error_log stderr;"
        "events {} http { access_log off; server {"
        f" listen 127.0.0.1:{port} reuseport; return 200 'here'; }} }}"
    )
    server = start("nginx", "-p", folder, "-c", folder / "nginx.conf")
    wait_until(lambda: len(children(server.pid)) == 2, "the workers")
    worker, other = children(server.pid)
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"here"
            connection.close()

    clients = [threading.Thread(target=ask) for _ in range(4)]
    kept_by_a_hog(start, worker, [other])
    try:
        for client in clients:
            client.start()
        before = {pid: schedstat(pid) for pid in (server.pid, worker, other)}
        samples, summary, recording = measured(tmp_path, "--comm", "nginx")
        after = {pid: schedstat(pid) for pid in before}
    finally:
        done.set()
        for client in clients:
            client.join()
    assert set(samples) >= set(before)
    check_accounts({pid: samples[pid] for pid in before}, before, after)
    check_verdict({pid: samples[pid] for pid in before}, worker)
    check_text(samples, summary, recording, "nginx: worker process")
