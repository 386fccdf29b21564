"""The rule on a file lock that a thread tries to get again and again, and sleeps in between."""

from collections.abc import Iterable
from types import MappingProxyType

from kernel_delay.analysis.verdict.formatting import length, name
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import WAIT_LIMITS
from kernel_delay.analysis.verdict.wait_reasons import ADVICE, path_text
from kernel_delay.model import Sample, Sleep, Thread

# Calls that can ask for a file lock without waiting for it, and of what kinds (/proc/locks).
LOCKS_FILES = MappingProxyType(
    {
        "fcntl": frozenset(("POSIX", "OFDLCK")),
        "fcntl64": frozenset(("POSIX", "OFDLCK")),
        "flock": frozenset(("FLOCK",)),
    }
)

# A single call may have nothing to do with the sleep.
LEAST_ATTEMPTS = 2


def _pauses(thread: Thread) -> list[Sleep]:
    """The sleeps on a timer, if there was a call on locks for each."""
    found = [sleep for sleep in thread.sleeps if sleep.reason == "clock"]
    waits = sum(sleep.count for sleep in found)
    calls = sum(call.count for call in thread.syscalls if call.name in LOCKS_FILES)
    # The first or the last one may be outside of the window.
    return found if waits >= LEAST_ATTEMPTS and calls >= max(waits - 1, LEAST_ATTEMPTS) else []


def polled_kinds(threads: Iterable[Thread]) -> frozenset[str]:
    """Return the kinds of file locks that a thread may try to get, and sleep in between."""
    calls = {call.name for thread in threads if _pauses(thread) for call in thread.syscalls}
    return frozenset().union(*(LOCKS_FILES.get(name or "", ()) for name in calls))


def _lost_ns(sample: Sample, thread: Thread) -> int:
    if sample.system_state is None or sample.system_state.polled_lock is None:
        return 0
    return sum(sleep.ns for sleep in _pauses(thread))


def _say(case: Case) -> Statement | None:
    state = case.sample.system_state
    if state is None or state.polled_lock is None or state.lock_holder is None:
        return None
    pauses = _pauses(case.thread)
    attempts = sum(sleep.count for sleep in pauses)
    holder, pid = state.lock_holder
    return Statement(
        f"{name(case.sample, case.thread)} slept on a timer {attempts:,} times, maybe for"
        f" {holder} ({pid})'s lock on {path_text(state.polled_lock)},",
        "other-process",
        {"waits": attempts, "holder_pid": pid},
        (f"The longest sleep took {length(max(sleep.max_ns for sleep in pauses))}.",),
        ADVICE["file_lock"],
        explains=frozenset(
            (rule, thread.tid)
            for thread in (case.thread, *case.others)
            for rule in ("asleep", "wait_clock")
        ),
    )


LOCK_POLLED = Rule(
    name="file_lock_polled",
    least_share=WANTED_SHARE,
    lost_ns=_lost_ns,
    say=_say,
    measures="a file lock, asleep between attempts to get it",
    limits=WAIT_LIMITS,
)
