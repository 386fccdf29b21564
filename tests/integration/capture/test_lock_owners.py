"""What the owner of a lock did in the waits that it ended is known, and is no more than these."""

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import LockWait, Sample
from tests.integration.capture.captures import UNTIL_ENDED_S, StartCapture
from tests.verdicts.staging import Process, hog, running, workload
from tests.workload import wait_until_it_slept

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

MS = 1_000_000
HOLD_US = 20_000


def lock_wait(victim: Process) -> LockWait:
    """The main thread's for its mutex."""
    plan = WindowPlan(sample_time_ns=600 * MS)
    with Session(find_target(victim.pid), plan, SessionOptions()) as session:
        (sample,) = session.samples()
    return wait_in(sample, victim)


def wait_in(sample: Sample, victim: Process) -> LockWait:
    """Of a window the same."""
    (main,) = (thread for thread in sample.threads if thread.tid == victim.pid)
    (wait,) = main.lock_waits
    assert wait.tid == victim.reported["owner"]
    return wait


def test_an_owner_that_sleeps_is_seen_to() -> None:
    with workload("contended", "mutex", "sleep", HOLD_US) as victim:
        wait = lock_wait(victim)
    owner = wait.owner
    assert owner is not None
    assert (owner.syscall, owner.reason) == ("clock_nanosleep", "clock")
    assert 0 < owner.known_ns <= wait.ns
    assert owner.blocked_ns + owner.ready_ns + owner.held_ns <= owner.known_ns
    # Of each wait the most part: all that the owner sleeps but for the waiter's way to the lock.
    ended = owner.known_ns // (HOLD_US * 1000)
    assert owner.blocked_ns >= HOLD_US * 1000 // 2 * min(1, ended)


def test_an_owner_that_has_no_cpu_is_seen_to_wait() -> None:
    cpu = max(os.sched_getaffinity(0))
    with (
        running(hog, cpu=cpu),
        running(hog, cpu=cpu),
        workload("contended", "mutex", "spin", HOLD_US) as victim,
    ):
        os.sched_setaffinity(victim.reported["owner"], {cpu})
        owner = lock_wait(victim).owner
    assert owner is not None
    assert owner.known_ns > 0
    # Of three that want the CPU it has a third, or less if there are others.
    assert owner.ready_ns >= owner.known_ns // 4


@contextmanager
def moved_about(tid: int, cpus: list[int]) -> Iterator[None]:
    """Meanwhile the thread is moved from CPU to CPU."""
    ended = threading.Event()

    def move() -> None:
        for cpu in itertools.cycle(cpus):
            os.sched_setaffinity(tid, {cpu})
            if ended.wait(0.01):
                return

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        ended.set()
        mover.join()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU")
def test_owner_that_is_moved_as_it_waits_is_seen_to(start_capture: StartCapture) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    with ExitStack() as closing:
        for cpu in cpus:
            closing.enter_context(running(hog, cpu=cpu))
        victim = closing.enter_context(workload("contended", "mutex", "spin", HOLD_US))
        owner_tid = victim.reported["owner"]
        os.setpriority(os.PRIO_PROCESS, owner_tid, 19)
        closing.enter_context(moved_about(owner_tid, cpus))
        capture = start_capture(victim.pid, UNTIL_ENDED_S)
        capture.wait_until_open()
        # The owner may be without a CPU for long, and is known of waits that ended. It sleeps
        # behind each of its turns. The victim has turns without a wait as long as it is away.
        wait_until_it_slept(owner_tid, 4)
        owner = wait_in(capture.end(), victim).owner
    assert owner is not None
    assert owner.known_ns > 0
    # Most of the time somebody else has its CPU, and each wait for that is in several parts.
    assert owner.ready_ns >= owner.known_ns // 2


def test_an_owner_that_computes_is_seen_not_to_sleep() -> None:
    with workload("contended", "mutex", "spin", HOLD_US) as victim:
        owner = lock_wait(victim).owner
    assert owner is not None
    assert owner.known_ns > 0
    # It sleeps between two holds, and nobody waits for it then.
    assert owner.blocked_ns <= owner.known_ns // 10
