"""Whether waits for futexes may be for the lock of Python's interpreter."""

from collections.abc import Iterable

from kernel_delay.analysis.verdict.formatting import length, where_from
from kernel_delay.analysis.verdict.lock_chains import SURE_SHARE
from kernel_delay.analysis.verdict.rule import Case
from kernel_delay.analysis.verdict.wakers import ENDED_SHARE, MainWaker
from kernel_delay.model import Sample, Sleep, SyscallStats, Thread

# What a Python program's threads most often wait for: Python/ceval_gil.c, 3.2 to 3.14.
AS_WITH_GIL = "Such waits are typical of Python's interpreter lock (GIL)."


def is_python(sample: Sample) -> bool:
    """Whether Python runs the program."""
    return (sample.target.exe or "").rpartition("/")[2].startswith("python")


# sys.getswitchinterval(), if not set, and by how much a timer or a window's boundary is off.
_SWITCH_NS = 5_000_000
_SWITCH_SPREAD = 0.1


# Of waits for it that others end before they ask, some last until they ask: Python computes.
_ASKED_SHARE = 0.1


def may_be_turns(case: Case, slept: list[Sleep], waker: MainWaker) -> bool:
    """Whether these can be waits for the interpreter's lock, which others had meanwhile.

    Others were in the program's own code for as long: a call that sleeps gives the lock away, so
    who waits for what another one gets from there, as by a queue, does not wait for the
    interpreter. Some waits lasted until it asks for the lock: code in C that has given it away
    keeps nobody waiting so.
    """
    if not _are_short(slept):
        return False
    asked_ns, _ = _timed_out(slept)
    if asked_ns < _ASKED_SHARE * waker.ns:
        return False
    others = [other for other in case.sample.threads if other.tid != case.thread.tid]
    return _outside_calls_ns(others) >= SURE_SHARE * waker.ns


def _are_short(slept: list[Sleep]) -> bool:
    """Whether nearly all ended before, or as, they would ask for the lock."""
    ns, count = sum(sleep.ns for sleep in slept), sum(sleep.count for sleep in slept)
    return 0 < ns < count * (1 + _SWITCH_SPREAD) * _SWITCH_NS


def look_for_holder(sample: Sample) -> str | None:
    """Advise what shows who has the interpreter's lock."""
    command = f"kernel-delay where -p {sample.target.pid}"
    return where_from(sample, f"To see who holds it, and in which function: {command}")


def _timed_out(slept: list[Sleep]) -> tuple[int, int]:
    """How long waits took, and how many, that timers ended; 0 if not after that interval each."""
    timed = [waker for sleep in slept for waker in sleep.wakers if waker.kind == "hard_irq"]
    ns, count = sum(waker.ns for waker in timed), sum(waker.count for waker in timed)
    if not count or abs(ns / count - _SWITCH_NS) > _SWITCH_SPREAD * _SWITCH_NS:
        return 0, 0
    return ns, count


def switches(case: Case, slept: list[Sleep]) -> tuple[str, ...]:
    """Say that it waited as long as Python has a thread wait before it asks for the lock.

    A timer ends that wait, and who has the lock gives it away at once, which ends the next
    (Python/ceval_gil.c:take_gil(), 3.2 to 3.14). Meanwhile others ran, or wanted to: who polls a
    queue as often has no part in that.
    """
    sample = case.sample
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    ns, count = _timed_out(slept)
    others = [waker for waker in wakers if waker.pid == sample.target.pid]
    least_ns = ENDED_SHARE * sum(sleep.ns for sleep in slept)
    if not others or not count or not _are_short(slept) or ns < least_ns:
        return ()
    if _ran_ns(other for other in sample.threads if other.tid != case.thread.tid) < ns:
        return ()
    waits = f"{count:,} waits, after {length(ns // count)} each" if count > 1 else "one wait"
    return (AS_WITH_GIL, f"A timer ended {waits}.")


def _ran_ns(threads: Iterable[Thread]) -> int:
    """How long these were on a CPU, or could have been."""
    times = [thread.time for thread in threads if thread.time is not None]
    return sum(time.user_ns + time.kernel_ns + time.ready_ns for time in times)


def _outside_calls_ns(threads: Iterable[Thread]) -> int:
    """How much of that was not in system calls."""
    return sum(
        max(0, _ran_ns((thread,)) - sum(_in_call_ns(stats) for stats in thread.syscalls))
        for thread in threads
    )


def _in_call_ns(stats: SyscallStats) -> int:
    return (stats.on_cpu_ns or 0) + (stats.ready_ns or 0)
