"""What of the programs follows threads: whom, since when, and nobody unless that is asked for."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernel_delay.capture.chains._chain_records import lib
from kernel_delay.capture.chains.programs import ChainPrograms
from kernel_delay.capture.plan import Plan, WindowPlan
from kernel_delay.capture.program_names import CHAIN_MAPS, STATES_OF_FOLLOWED, STOPS_OF_ALL
from kernel_delay.capture.program_options import ProgramOptions
from kernel_delay.capture.programs import Programs
from kernel_delay.loader._records import lib as session
from kernel_delay.loader.objects import load_object, open_object
from tests import commands
from tests.emulation import scaled
from tests.needs import needed
from tests.workload import wait_until

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

pytestmark = pytest.mark.usefixtures("measurable")

RUNS_SHELLS = """
import subprocess
while True:
    subprocess.run(["sh", "-c", "sleep 0.03; :"])
"""

# SIGCHLD says that a child has ended: of a shell's that runs in the background, of a program that
# waits for signals, and of one that polls. On a busy machine it takes a while to start one.
WAITS_FOR_SIGNALS = {
    "sigsuspend": """
import subprocess
while True:
    subprocess.run(["sh", "-c", "sleep 0.2 & wait"])
""",
    "sigwait": """
import os, signal, subprocess
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
while True:
    child = subprocess.Popen(["sleep", "0.2"])
    signal.sigwait([signal.SIGCHLD])
    os.waitpid(child.pid, 0)
""",
    "select": """
import os, select, signal, subprocess
reads, writes = os.pipe()
os.set_blocking(writes, False)
signal.set_wakeup_fd(writes)
signal.signal(signal.SIGCHLD, lambda *args: None)
while True:
    child = subprocess.Popen(["sleep", "0.2"])
    select.select([reads], [], [])
    os.read(reads, 99)
    os.waitpid(child.pid, 0)
""",
}

# Of one CPU, which another one has too. Each child counts up to that.
COUNTS = scaled(60_000)
PREEMPTED = f"""
import subprocess
while True:
    subprocess.run(["sh", "-c", "i=0; while [ $i -lt {COUNTS} ]; do i=$((i+1)); done"])
"""

# It is resumed again and again, and stops at once. A process group that nobody is left to resume
# is hung up when it is stopped (kernel/exit.c: kill_orphaned_pgrp(), 6.18).
STOPPED = """
import os, signal, subprocess, threading, time
loop = "while kill -0 $PPID; do kill -STOP $$; done"
child = subprocess.Popen(["sh", "-c", loop], process_group=0)
def resume():
    while True:
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        time.sleep(0.1)
        child.send_signal(signal.SIGCONT)
threading.Thread(target=resume, daemon=True).start()
child.wait()
"""

# The shell was there before anybody looked, and what it forks is not.
ANSWERS_ITSELF = 'mkfifo "$0" && { while :; do sleep 0.03; echo; done >"$0" & exec cat "$0"; }'

# Of all waits; a program may be kept from an event.
LEAST_SHARE = 0.8

WINDOWS = WindowPlan(sample_time_ns=500_000_000)


def parts_of(pid: int, *within: str) -> list[dict[str, Any]]:
    """The parts of the waits of its main thread, in a window that others were before."""
    options = ("--sample-time", "0.5", "--sample-count", "2", "--chains", "--json")
    done = commands.run("capture", "-p", pid, *options, within=within)
    assert done.returncode == 0, done.stderr
    sample = json.loads(done.stdout.splitlines()[-1])
    (thread,) = (each for each in sample["threads"] if each["tid"] == pid)
    assert sum(part["ns"] for part in thread["chain"]["parts"]) == thread["time"]["blocked_ns"]
    found: list[dict[str, Any]] = thread["chain"]["parts"]
    return found


def shares(parts: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    """By the names of the threads that it waited for, of which it is known what they did."""
    found: Counter[tuple[str, ...]] = Counter()
    whole_ns = sum(part["ns"] for part in parts)
    for part in parts:
        if part["state"] != "unknown":
            found[tuple(each["name"] for each in part["threads"])] += part["ns"] / whole_ns
    return found


@contextmanager
def running(program: str) -> Iterator[int]:
    """A process that runs others, one after the other, as long as that."""
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        try:
            wait_until(lambda: bool(forked_by(process.pid)), "the first child")
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def forking() -> Iterator[int]:
    """A process that runs shells."""
    with running(RUNS_SHELLS) as pid:
        yield pid


def test_children_that_are_gone_soon_are_followed(forking: int) -> None:
    found = shares(parts_of(forking))
    assert found.total() >= LEAST_SHARE
    assert found["sh", "sleep"] > 0


@pytest.mark.parametrize("program", WAITS_FOR_SIGNALS.values(), ids=WAITS_FOR_SIGNALS)
def test_children_that_tell_their_end_by_a_signal_are_waited_for(program: str) -> None:
    with running(program) as pid:
        found = shares(parts_of(pid))
    # How much that is depends on how soon a child gets a CPU that is to sleep.
    assert sum(share for names, share in found.items() if "sleep" in names) > 0


def of_state(parts: list[dict[str, Any]], state: str) -> float:
    """Which share of all waits a root was in that state."""
    lengths_ns = Counter[str]()
    for part in parts:
        lengths_ns[part["state"]] += part["ns"]
    return lengths_ns[state] / lengths_ns.total()


def test_child_that_is_preempted_is_known_throughout() -> None:
    cpu = {max(os.sched_getaffinity(0))}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as hog:
        try:
            os.sched_setaffinity(hog.pid, cpu)
            with running(PREEMPTED) as pid:
                os.sched_setaffinity(pid, cpu)
                parts = parts_of(pid)
        finally:
            hog.kill()
    assert of_state(parts, "running")
    assert of_state(parts, "running") + of_state(parts, "runnable") >= LEAST_SHARE


def test_child_that_is_stopped_is_not_asleep() -> None:
    with running(STOPPED) as pid:
        parts = parts_of(pid)
    assert of_state(parts, "stopped")
    # It wants a CPU before it stops again.
    awake = of_state(parts, "running") + of_state(parts, "runnable")
    assert of_state(parts, "stopped") + awake >= LEAST_SHARE


def forked_by(pid: int) -> list[int]:
    """Its children, also where /proc does not list them (CONFIG_PROC_CHILDREN)."""
    command = [needed("ps"), "-o", "pid=", "--ppid", str(pid)]
    return list(map(int, subprocess.run(command, stdout=subprocess.PIPE).stdout.split()))


@contextmanager
def in_a_namespace(fifo: Path) -> Iterator[int]:
    """A process that is number 1 of a PID namespace: the number that it has out here."""
    namespace = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    command = [*namespace, "sh", "-c", ANSWERS_ITSELF, str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: any(map(forked_by, forked_by(process.pid))), "the shell")
            (pid,) = forked_by(process.pid)
            yield pid
        finally:
            process.kill()


def test_process_that_is_met_later_is_followed_in_a_pid_namespace(tmp_path: Path) -> None:
    """By then the tool may load no programs any more."""
    with in_a_namespace(tmp_path / "fifo") as pid:
        found = shares(parts_of(1, "nsenter", f"--target={pid}", "--pid", "--mount"))
    assert found["sh", "sleep"] > 0
    assert found.total() >= LEAST_SHARE


def taken(chains: ChainPrograms) -> "Iterator[ChainEvent]":
    """Those up to now."""
    return chains.events(session.monotonic_ns())


def test_without_chains_nothing_of_it_is_loaded() -> None:
    with open_object("capture", built_in=True) as bpf_object:
        ProgramOptions(bpf_object, (os.getpid(),), Plan(WINDOWS), children=False)
        load_object(bpf_object)
        names = (STATES_OF_FOLLOWED, STOPS_OF_ALL)
        assert not any(bpf_object.program(name).autoload for name in names)
        assert all(bpf_object.map(name).fd < 0 for name in CHAIN_MAPS)


def test_nobody_is_followed_any_more_after_the_end(forking: int) -> None:
    """Nor whom they forked just before."""
    with Programs((forking,), Plan(WINDOWS, chains=True)) as programs:
        chains = programs.chains()
        chains.follow(forking)
        kinds = set[int]()

        def are_all_reported() -> bool:
            kinds.update(event.kind for event in taken(chains))
            return kinds >= {lib.CHAIN_FORKED, lib.CHAIN_LEFT_CPU}

        wait_until(are_all_reported, "a fork")
        chains.close()
        again = programs.chains()
        # What was written before.
        list(taken(again))
        shells = forked_by(forking)
        wait_until(lambda: forked_by(forking) not in ([], shells), "another shell")
        again.note_states()
        assert {event.kind for event in taken(again)} <= {lib.CHAIN_SIGNALLED}
        again.close()


def test_forks_are_followed_unless_there_are_too_many(forking: int) -> None:
    with Programs((forking,), Plan(WINDOWS, chains=True)) as programs:
        chains = programs.chains()
        chains.follow_forks(are_followed=False)
        chains.follow(forking)
        seen = set[tuple[int, int]]()

        def is_seen(kind: int) -> bool:
            seen.update((event.kind, event.process) for event in taken(chains))
            return kind in {each for each, _ in seen}

        wait_until(lambda: is_seen(lib.CHAIN_WOKEN), "the end of a wait")
        assert {process for kind, process in seen if kind != lib.CHAIN_SIGNALLED} == {forking}
        chains.follow_forks(are_followed=True)
        wait_until(lambda: is_seen(lib.CHAIN_FORKED), "a fork")
        chains.close()
