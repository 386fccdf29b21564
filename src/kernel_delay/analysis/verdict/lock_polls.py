"""The rule on a file lock that a thread tries to get again and again, and sleeps in between."""

from collections.abc import Iterable
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import length, name
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import Case, Rule, Statement
from kernel_delay.analysis.verdict.sleeps import WAIT_LIMITS
from kernel_delay.analysis.verdict.wait_files import path_text
from kernel_delay.analysis.verdict.wait_reasons import ADVICE
from kernel_delay.analysis.verdict.wakers import LOCKING_COMMAND, waits_ended_by
from kernel_delay.model import Sample, Sleep, Thread

# Calls that can ask for a file lock without waiting for it, and of what kinds (/proc/locks).
LOCKS_FILES = MappingProxyType(
    {
        "fcntl": frozenset(("POSIX", "OFDLCK")),
        "fcntl64": frozenset(("POSIX", "OFDLCK")),
        "flock": frozenset(("FLOCK",)),
    }
)

# Those that a child can take for the process that has opened the file.
_OF_OPEN_FILES = frozenset(("FLOCK", "OFDLCK"))

# A single call may have nothing to do with the sleep.
LEAST_ATTEMPTS = 2


class _Polling(Struct, frozen=True):
    """How a thread seems to try to lock a file.

    Attributes:
        pauses: Its sleeps between the attempts.
        kinds: Of which kinds the lock may be.
        does: What it does, in words.
    """

    pauses: list[Sleep]
    kinds: frozenset[str]
    does: str


def _polling(thread: Thread) -> _Polling | None:
    """How a thread seems to poll a lock, by itself or as a shell does; None if it does not."""
    found = [sleep for sleep in thread.sleeps if sleep.reason == "clock"]
    waits = sum(sleep.count for sleep in found)
    calls = [call for call in thread.syscalls if call.name in LOCKS_FILES]
    # The first or the last one may be outside of the window.
    if waits >= LEAST_ATTEMPTS and sum(each.count for each in calls) >= max(
        waits - 1, LEAST_ATTEMPTS
    ):
        kinds = frozenset[str]().union(*(LOCKS_FILES[call.name or ""] for call in calls))
        return _Polling(found, kinds, f"slept on a timer {waits:,} times")
    found = [sleep for sleep in thread.sleeps if sleep.reason == "child"]
    attempts = waits_ended_by(found, LOCKING_COMMAND)
    if attempts < LEAST_ATTEMPTS:
        return None
    does = f"waited for its children, {LOCKING_COMMAND} among them {attempts:,} times"
    return _Polling(found, _OF_OPEN_FILES, does)


def polled_kinds(threads: Iterable[Thread]) -> frozenset[str]:
    """Return the kinds of file locks that a thread may try to get, and sleep in between."""
    return frozenset[str]().union(*(each.kinds for each in map(_polling, threads) if each))


def _lost_ns(sample: Sample, thread: Thread) -> int:
    if sample.system_state is None or sample.system_state.polled_lock is None:
        return 0
    polling = _polling(thread)
    return sum(sleep.ns for sleep in polling.pauses) if polling else 0


def _say(case: Case) -> Statement | None:
    state = case.sample.system_state
    polling = _polling(case.thread)
    if state is None or state.polled_lock is None or state.lock_holder is None or polling is None:
        return None
    holder, pid = state.lock_holder
    return Statement(
        f"{name(case.sample, case.thread)} {polling.does}, maybe for {holder} ({pid})'s lock on"
        f" {path_text(state.polled_lock)},",
        "other-process",
        {"waits": sum(sleep.count for sleep in polling.pauses), "holder_pid": pid},
        (f"The longest sleep took {length(max(sleep.max_ns for sleep in polling.pauses))}.",),
        ADVICE["file_lock"],
        explains=frozenset(
            (rule, thread.tid)
            for thread in (case.thread, *case.others)
            for rule in ("asleep", "wait_clock", "wait_child")
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
