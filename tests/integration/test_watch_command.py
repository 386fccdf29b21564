"""`kernel-delay watch` beside what Open vSwitch itself says of its long rounds."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import astuple

from kernel_delay.analysis.rounds import ran_functions
from kernel_delay.model import Sample
from kernel_delay.openvswitch.log_lines import SHORTEST_LOGGED_MS, parse_line
from lab.binaries import Binaries
from lab.instance import Instance
from tests.cgroups import writable_hierarchy
from tests.commands import KERNEL_DELAY
from tests.emulation import is_emulated
from tests.integration.long_rounds import MAIN, LongRounds, ovs_with_long_rounds
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import HANGS_S, Workload, compile_workload, stop_for, wait_until

MS = 1_000_000
LONG_MS = 1050

# How far the lengths may be apart: OVS has its own of two clocks in ms.
# An emulated CPU takes some milliseconds for the calls in between.
TOLERANCE_MS = 40 if is_emulated() else 2


@pytest.fixture(scope="module")
def slow_ovs(root_user: None, ovs_binaries: Binaries) -> Iterator[LongRounds]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ovs_with_long_rounds(ovs_binaries, Path(folder)) as rounds,
    ):
        rounds.ovs.add_bridge("brlong")
        yield rounds


@pytest.fixture
def watching(slow_ovs: LongRounds, tmp_path: Path) -> Iterator[Watching]:
    with watch_of(slow_ovs.ovs.pid, tmp_path / "recordings") as found:
        yield found


def continue_when_stopped(pid: int) -> None:
    """Send SIGCONT a while after the process was stopped."""
    stat = Path(f"/proc/{pid}/stat")
    wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
    time.sleep(LONG_MS / 1000)
    os.kill(pid, signal.SIGCONT)


def test_each_log_line_has_one_record_and_vice_versa(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    before = len(slow_ovs.logged())
    causes = ["compute", "sleep", "lock", "write", "stop"]
    for cause in causes:
        if cause == "stop":
            waker = threading.Thread(target=continue_when_stopped, args=[slow_ovs.ovs.pid])
            waker.start()
        slow_ovs.make(MAIN, cause, LONG_MS)
    waker.join()
    slow_ovs.ovs.appctl("version")
    watching.wait_for_recordings(len(causes))
    text = watching.end()

    lines = [parse_line(line) for line in slow_ovs.logged()[before:]]
    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    logs = [sample.round.log for sample in samples if sample.round is not None]
    assert len(logs) == len(samples)
    assert [log for log in logs if log is not None] == lines
    assert len(lines) >= len(causes)
    for log, sample in zip(logs, samples, strict=True):
        assert sample.round is not None
        (thread,) = sample.threads
        assert thread.time is not None
        # All threads are stopped at once: whichever has a round then has a long one.
        is_main = sample.round.tid == slow_ovs.ovs.pid
        assert is_main or thread.time.stopped_ns > 0, thread
        assert log is None or is_main == (log.thread == "")
        # Between the poll and OVS's own look at its clock it may be kept from the CPU. What was
        # long by that alone has no line.
        stolen_ns = thread.task_times.steal_ns if thread.task_times is not None else None
        interrupted_ns = thread.time.hard_irq_ns + thread.time.soft_irq_ns
        kept_ns = thread.time.ready_ns + thread.time.unaccounted_ns + interrupted_ns
        kept_ms = (kept_ns + (stolen_ns or 0)) / MS
        length_ms = SHORTEST_LOGGED_MS if log is None else log.length_ms
        apart_ms = sample.window.duration_ns / MS - length_ms
        assert apart_ms <= TOLERANCE_MS + kept_ms
        assert log is None or apart_ms >= -TOLERANCE_MS - kept_ms
    assert text.count("[log: ") == len(samples)
    counted = slow_ovs.long_poll_intervals()
    assert counted in (None, before + len(lines))


def test_a_record_says_what_kept_the_thread(slow_ovs: LongRounds, watching: Watching) -> None:
    slow_ovs.make(MAIN, "lock", LONG_MS)
    slow_ovs.make(MAIN, "write", LONG_MS)
    watching.wait_for_recordings(2)
    watching.end()

    lock, write = (sample for path in watching.recordings() for sample in samples_in(path))
    (thread,) = lock.threads
    assert thread.time is not None
    assert thread.time.blocked_ns >= 0.9 * LONG_MS * MS
    # On a slow machine it may wait for others too.
    assert max(thread.lock_waits, key=lambda wait: wait.ns).name == "lock_holder"
    (thread,) = write.threads
    assert thread.sleeps[0].syscall == "write"
    assert [waker.comm for waker in thread.sleeps[0].wakers] == ["slow_reader"]
    (event,) = write.syscall_events or ()
    assert event.name == "write"
    assert event.user_stack is not None
    names = [frame.name for frame in write.stacks[event.user_stack]]
    assert "getrusage" in names


@pytest.mark.usefixtures("earlier_calls")
def test_what_a_thread_computed_has_the_function_that_did(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    slow_ovs.make(MAIN, "compute", LONG_MS)
    watching.wait_for_recordings()
    text = watching.end()

    (sample,) = samples_in(watching.recordings()[0])
    assert sample.round is not None
    assert sample.round.profile_start_ns is not None
    assert sample.round.profile_start_ns > sample.window.start_ns
    assert ran_functions(sample)[0].name == "kd_compute"
    assert "mostly in kd_compute" in text or "no CPU" in text


def test_report_of_a_record_names_the_thread_and_round(
    slow_ovs: LongRounds, watching: Watching
) -> None:
    slow_ovs.make(MAIN, "sleep", LONG_MS)
    watching.wait_for_recordings()
    watching.end()

    (path,) = watching.recordings()
    command = [*KERNEL_DELAY, "report", os.fspath(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"of {MAIN} ({slow_ovs.ovs.pid}), from a poll's return to the next poll" in text
    assert "Open vSwitch logged it at " in text
    assert "clock_nanosleep" in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_json_of_the_recordings_is_what_was_printed(slow_ovs: LongRounds, tmp_path: Path) -> None:
    with watch_of(slow_ovs.ovs.pid, tmp_path / "recordings", "--json") as watching:
        for _ in range(2):
            slow_ovs.make(MAIN, "sleep", LONG_MS)
        watching.wait_for_recordings(2)
        live = watching.end()

    command = [*KERNEL_DELAY, "report", "--json", *map(os.fspath, watching.recordings())]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # They are named by when they began, and printed when they ended.
    assert sorted(reported.splitlines()) == sorted(live.splitlines())
    assert live.count('"round"') >= 2


def test_sigusr1_tells_what_each_thread_does(slow_ovs: LongRounds, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    command = [*KERNEL_DELAY, "watch", "--pid", str(slow_ovs.ovs.pid)]
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            wait_until(lambda: "watching" in errors.read_text(), "the watch")
            process.send_signal(signal.SIGUSR1)
            # On a busy machine it may be waiting for a CPU just then.
            reported = re.compile(rf"{MAIN} \({slow_ovs.ovs.pid}\): [a-zA-Z_ ]+; [\d,]+ rounds?")
            wait_until(lambda: bool(reported.search(errors.read_text())), "what it does")
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(HANGS_S) == 0


def is_pmd(sample: Sample) -> bool:
    return sample.round is not None and sample.round.name.startswith("pmd-c")


@pytest.mark.long
def test_time_off_cpu_of_a_pmd_thread_is_recorded(
    root_user: None, ovs_binaries: Binaries, tmp_path: Path
) -> None:
    """It is stopped for a while, as it spins and never polls."""
    # Longer than others take the CPU on a busy machine.
    stopped_ms = 2000
    with Instance(ovs_binaries, options=("--enable-dummy", "--dummy-numa", "0,0")) as ovs:
        ovs.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x1")
        ovs.add_bridge("brpmd")
        ovs.vsctl("add-port", "brpmd", "p1", "--", "set", "Interface", "p1", "type=dummy-pmd")
        with watch_of(ovs.pid, tmp_path / "recordings", "--pmd-gap", "0.15") as watching:

            def is_reported() -> bool:
                # That it left its CPU may be missed.
                stop_for(ovs.pid, stopped_ms / 1000)
                time.sleep(0.5)
                # On a busy machine others may be as long.
                return "was stopped for" in "".join(watching.lines())

            wait_until(is_reported, "its line")
            watching.end()

    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    # The first thread, which was stopped too, may have been so amid a round.
    of_pmd = [each for each in samples if is_pmd(each)]
    sample = next(
        each for each in of_pmd if each.threads[0].time and each.threads[0].time.stopped_ns
    )
    (thread,) = sample.threads
    assert sample.window.ended_by == "switch"
    assert thread.time is not None
    assert sum(astuple(thread.time)) == sample.window.duration_ns
    # It is stopped when it gets to its CPU, and goes on then too: others may have that for long.
    assert thread.time.stopped_ns > 150 * MS
    assert sample.verdict[0].rule == "stopped"
    assert not any(each.threads[0].long_poll for each in of_pmd)


# Its first thread polls, and works in between; another one sleeps.
POLLER = """
import select, threading, time

other = threading.Thread(target=time.sleep, args=(600,), daemon=True)
other.start()
print(other.native_id, flush=True)
poll = select.poll()
while True:
    poll.poll(0)
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
"""


@pytest.mark.parametrize("by_the_poller", [True, pytest.param(False, marks=pytest.mark.long)])
def test_who_stopped_a_thread_in_its_round_is_named(
    root_user: None, by_the_poller: bool, tmp_path: Path
) -> None:
    """The thread itself takes the signal, or another one of its process."""
    with ExitStack() as stack:
        poller = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", POLLER], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(poller.kill)
        assert poller.stdout is not None
        other = int(poller.stdout.readline())
        folder = tmp_path / "recordings"
        watching = stack.enter_context(watch_of(poller.pid, folder, "--threshold", "0.3"))
        tid = poller.pid if by_the_poller else other
        stat = Path(f"/proc/{poller.pid}/stat")

        def is_reported() -> bool:
            """If the event before a stop, the poll's return, was missed, no round has that one."""
            assert ctypes.CDLL(None).tgkill(poller.pid, tid, signal.SIGSTOP) == 0
            wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
            time.sleep(0.5)
            os.kill(poller.pid, signal.SIGCONT)
            return "was stopped for" in "".join(watching.lines())

        wait_until(is_reported, "its line")
        text = watching.end()

    said = f"by SIGSTOP, which {Path('/proc/self/comm').read_text().strip()}"
    assert f"{said} ({os.getpid()}) sent" in text


def stopped_by_gdb(pid: int) -> str:
    """Have gdb stop the process for a while; return its name and PID as a line has them."""
    command = ["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "shell sleep 0.6"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gdb:
        assert gdb.wait() == 0
        return f"gdb ({gdb.pid})"


@pytest.mark.long
def test_tracer_is_named_not_an_older_stop_signal(root_user: None, tmp_path: Path) -> None:
    with ExitStack() as stack:
        poller = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", POLLER], stdout=subprocess.PIPE, text=True)
        )
        stack.callback(poller.kill)
        assert poller.stdout is not None
        poller.stdout.readline()
        folder = tmp_path / "recordings"
        watching = stack.enter_context(watch_of(poller.pid, folder, "--threshold", "0.3"))
        stat = Path(f"/proc/{poller.pid}/stat")
        os.kill(poller.pid, signal.SIGSTOP)
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
        os.kill(poller.pid, signal.SIGCONT)
        time.sleep(0.5)

        lines: list[str] = []
        gdbs = []

        def is_reported() -> bool:
            """If the event before the stop was missed, no round has that one."""
            gdbs.append(stopped_by_gdb(poller.pid))
            wait_until(lambda: watching.lines() != lines or poller.poll() is not None, "a line")
            lines[:] = watching.lines()
            return "was stopped for" in lines[-1]

        wait_until(is_reported, "its line")
        watching.end()
    # The line may be of an earlier one's round.
    assert any(f"{gdb}, its tracer, stopped it" in lines[-1] for gdb in gdbs)
    assert "SIGSTOP" not in lines[-1]
    assert "kill -CONT" not in lines[-1]


def test_open_vswitch_has_the_lines_that_are_looked_for(ovs_binaries: Binaries) -> None:
    program = ovs_binaries.ovs_vswitchd.read_bytes()
    for text in (
        b"Unreasonably long %lldms poll interval",
        b"blocked %u ms waiting for %s to quiesce",
        b"Spent an unreasonably long %lldms dumping flows",
    ):
        assert text in program


def test_with_little_memory_it_goes_on_without_stacks(tmp_path: Path) -> None:
    # A poll may be missed.
    workload = Workload([compile_workload("long_work"), 20])
    try:
        with watch_of(
            workload.pid, tmp_path / "recordings", "--memory-limit", "1", "--threshold", "0.005"
        ) as watching:
            wait_until(lambda: "without stacks" in watching.said(), "what it gives up")
            wait_until(lambda: "nothing more to do without" in watching.said(), "that this is all")
            workload.send()
            watching.wait_for_recordings()
            watching.end()
    finally:
        workload.kill()
    (sample, *_) = samples_in(watching.recordings()[0])
    (thread,) = sample.threads
    assert thread.time is not None
    assert sum(astuple(thread.time)) == sample.window.duration_ns
    assert sample.syscall_events is None


@pytest.fixture
def unit(root_user: None) -> Iterator[Path]:
    """The cgroup of a unit of systemd, as that makes it."""
    # Of its own name: a run that was killed leaves its folder.
    folder = writable_hierarchy() / f"kd-followed-{os.getpid()}.service"
    folder.mkdir()
    yield folder
    # A process that was killed leaves it a moment later.
    wait_until(lambda: not (folder / "cgroup.procs").read_text())
    folder.rmdir()


@pytest.mark.parametrize("by", ["pid", "name", "unit", "pid file"])
def test_watch_follows_the_successor_of_a_process(unit: Path, tmp_path: Path, by: str) -> None:
    pid_file, errors, program = tmp_path / "pid", tmp_path / "errors", tmp_path / "kd-followed"
    shutil.copy(compile_workload("long_work"), program)

    def start() -> Workload:
        workload = Workload([program, 1])
        pid_file.write_text(f"{workload.pid}\n")
        (unit / "cgroup.procs").write_text(str(workload.pid))
        return workload

    first = start()
    meant = {
        "pid": ("--pid", str(first.pid)),
        "name": ("--comm", program.name),
        "unit": ("--unit", unit.name),
        "pid file": ("--pid-file", os.fspath(pid_file)),
    }
    command = [*KERNEL_DELAY, "watch", "--follow", "--no-stacks", *meant[by]]
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            wait_until(lambda: f"watching kd-followed ({first.pid})" in errors.read_text())
            first.kill()
            wait_until(lambda: "waiting for a process" in errors.read_text())
            first = start()
            wait_until(lambda: f"watching kd-followed ({first.pid})" in errors.read_text())
        finally:
            process.send_signal(signal.SIGINT)
            status = process.wait(HANGS_S)
            first.kill()
    assert status == 0
