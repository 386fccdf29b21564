"""Who stopped a process is told where that is sure, and nobody is accused else."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kernel_delay.analysis.verdict.rule import Judged, apply
from kernel_delay.analysis.verdict.stopped_or_frozen import STOPPED
from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Finding
from tests.integration.capture.in_process import measured
from tests.verdicts.staging import (
    hog,
    program,
    running,
    tell,
    wait_until_traced,
    workload,
)
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

# include/uapi/linux/ptrace.h
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207

MOST_WINDOWS = 10


def session_of(pid: int) -> Session:
    plan = WindowPlan(sample_time_ns=1_000_000_000, count=MOST_WINDOWS)
    return Session(find_target(pid), plan, SessionOptions())


def found(session: Session, again: Callable[[], None] = lambda: None) -> Finding:
    """What the first window says that saw a stop; `again` has another one.

    That it left its CPU may be missed: then it is not known that it is stopped.
    """
    for sample in session.samples():
        if findings := apply(STOPPED, Judged(sample)):
            (reported,) = findings
            return reported.finding
        assert sample.lost.missed_events
        again()
    pytest.fail("no window saw a stop")


def wait_until_stopped(pid: int, tid: int, *, stopped: bool = True) -> None:
    stat = Path(f"/proc/{pid}/task/{tid}/stat")
    wait_until(lambda: (stat.read_text().rpartition(")")[2].split()[0] in "tT") == stopped)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_until_stopped(pid, pid)


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)
    wait_until_stopped(pid, pid, stopped=False)


def stop_again(pid: int) -> None:
    go_on(pid)
    stop(pid)


def test_who_sent_all_stops_is_reported() -> None:
    with running(hog) as victim, session_of(victim.pid) as session:
        stop(victim.pid)
        go_on(victim.pid)
        stop(victim.pid)
        text = found(session, partial(stop_again, victim.pid)).text
    assert "It was stopped by SIGSTOP, which " in text
    assert f"({os.getpid()}) sent" in text


def test_last_of_several_stops_is_not_blamed_for_all() -> None:
    with running(hog) as victim:

        def another_stops() -> None:
            for _ in range(5):
                subprocess.run(["kill", "-STOP", str(victim.pid)], check=True)
                wait_until_stopped(victim.pid, victim.pid)
                time.sleep(0.05)
                go_on(victim.pid)

        (reported,) = apply(STOPPED, Judged(measured(victim.pid, another_stops)))
    text = reported.finding.text
    assert " The last signal to stop it was SIGSTOP" in text


def test_sender_of_an_earlier_stop_is_not_blamed() -> None:
    with running(hog) as victim, session_of(victim.pid) as session:
        subprocess.run(["kill", "-STOP", str(victim.pid)], check=True)
        wait_until_stopped(victim.pid, victim.pid)
        go_on(victim.pid)
        stop(victim.pid)
        text = found(session, partial(stop_again, victim.pid)).text
    assert "It was stopped by SIGSTOP, which " in text
    assert f"({os.getpid()}) sent" in text


def test_a_tracer_is_not_blamed_for_a_signals_stop() -> None:
    with running(hog) as victim:
        command = ("strace", "-f", "-q", "-o", "/dev/null", "-p", victim.pid)
        with program(*command, tells=False) as strace:
            wait_until_traced(victim.pid)
            stop(victim.pid)
            with session_of(victim.pid) as session:
                unseen = found(session)
            go_on(victim.pid)
            with session_of(victim.pid) as session:
                stop(victim.pid)
                seen = found(session, partial(stop_again, victim.pid))
    assert f"strace ({strace.pid}) traced it. strace stopped it, or a signal did" in unseen.text
    assert unseen.advice is None
    assert "The last signal to stop it was SIGSTOP, which " in seen.text
    assert "strace" not in (seen.advice or "")


def seizer(tid: str) -> None:
    libc = ctypes.CDLL(None)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        libc.ptrace(request, int(tid), 0, 0)
    tell()
    signal.pause()


def test_tracer_of_another_thread_than_main_is_named() -> None:
    with workload("contended", "mutex", "spin", 20_000) as victim:
        owner = victim.reported["owner"]
        with running(seizer, owner, name="seizer") as tracer:
            wait_until_stopped(victim.pid, owner)
            with session_of(victim.pid) as session:
                finding = found(session)
    assert finding.tid == owner
    assert f"Meanwhile seizer ({tracer.pid}) traced it." in finding.text
