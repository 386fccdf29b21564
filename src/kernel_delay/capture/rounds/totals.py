"""Where all of the time of each thread went: the programs' totals, and what is going on.

The other side is bpf/accounting.h. What is charged there is what is charged to a window's
account, and here an account is made of it as of a window: from when a thread was registered
until it was read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_delay.analysis.accounting import Account, Counted, NotRunning, account
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads.counting import counted_time, thread_state
from kernel_delay.capture.threads.thread_stats import text_of
from kernel_delay.host.syscalls import syscall
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import CallTotals, Histogram, ThreadTotals

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.loader._records import ReportedTotals

# A thread that does something just then is read again; one that always does is reported later.
READINGS = 4

ASLEEP: tuple[NotRunning, ...] = ("blocked", "ready_woken")
"""That, and waiting for a CPU behind it."""

CALL_WORDS = 2
OTHER_NAME = "other"


class TotalsReader:
    """Reads them from programs that were loaded with totals."""

    def __init__(self, programs: Programs) -> None:
        """Read those of these."""
        self._programs = programs
        self._ended = programs.ended_totals()
        self._calls = memoryview(programs.syscall_totals()).cast("Q")

    def living(self) -> dict[int, ThreadTotals | None]:
        """Return those of each thread that is there, by its identity.

        None for one that could not be read, as it went on meanwhile.
        """
        found: dict[int, ThreadTotals | None] = {}
        for _ in range(READINGS):
            data = self._programs.totals()
            for reported in ffi.from_buffer("struct reported_totals[]", data):
                # What has ended just now reports that itself.
                if not reported.totals.exit_ns and found.get(reported.head.identity) is None:
                    found[reported.head.identity] = _living(reported)
            if None not in found.values():
                break
        return found

    def ended(self) -> Iterator[ThreadTotals]:
        """Return those of each thread that has ended since it was asked last."""
        for data in self._ended.take():
            yield _ended(ffi.from_buffer("struct reported_totals *", data)[0])

    def calls(self) -> list[CallTotals]:
        """Return all calls that have ended by their names; those that have none are one."""
        counts: Counter[str] = Counter()
        total_ns: Counter[str] = Counter()
        for slot in range(lib.SYSCALL_TOTALS):
            count, ns = self._sum_of(slot)
            if count:
                name = _call_name(slot)
                counts[name] += count
                total_ns[name] += ns
        return [CallTotals(name, count, total_ns[name]) for name, count in counts.items()]

    def _sum_of(self, slot: int) -> tuple[int, int]:
        """Return the calls of a slot on all CPUs, and their time."""
        step = lib.SYSCALL_TOTALS * CALL_WORDS
        counts = self._calls[slot * CALL_WORDS :: step]
        times = self._calls[slot * CALL_WORDS + 1 :: step]
        return sum(counts), sum(times)


def _call_name(slot: int) -> str:
    """Return how the calls of a slot are called: see syscall_slot() in bpf/."""
    if slot >= lib.OTHER_SYSCALLS:
        return OTHER_NAME
    table, number = divmod(slot, lib.FLAGGED_SYSCALLS)
    return syscall(number, compat=bool(table)).name or OTHER_NAME


def _living(reported: "ReportedTotals") -> ThreadTotals | None:
    """Return the totals of a thread; None if it went on while it was read."""
    now = reported.head.now
    if now.state_changes % 2 or now.state_changes != reported.state_changes:
        return None
    state = thread_state(now, bool(reported.head.kernel_worker))
    found = account(reported.totals.since_ns, reported.head.now_ns, _counted(reported), state)
    return None if found.missing_ns < 0 else _totals(reported, found)


def _ended(reported: "ReportedTotals") -> ThreadTotals:
    found = account(reported.totals.since_ns, reported.head.now_ns, _counted(reported), None)
    return _totals(reported, found, has_ended=True)


def _counted(reported: "ReportedTotals") -> Counted:
    totals = reported.totals
    mode_ns, not_running_ns = counted_time(totals, bool(reported.head.kernel_worker))
    not_running_ns = dict(not_running_ns)
    # What a thread was in when it was registered its first event shows. One that slept was in a
    # call, to which all of that time is charged when it leaves it.
    for kind in ASLEEP:
        known_ns, unknown_ns = (
            not_running_ns.get(("syscall", kind), 0),
            not_running_ns.pop(("unknown", kind), 0),
        )
        not_running_ns["syscall", kind] = known_ns + unknown_ns
    return Counted(mode_ns, not_running_ns, totals.not_alive_ns, totals.exit_ns or None, {})


def _totals(reported: "ReportedTotals", found: Account, *, has_ended: bool = False) -> ThreadTotals:
    totals = reported.totals
    return ThreadTotals(
        identity=reported.head.identity,
        tid=reported.head.tid,
        name=text_of(reported.head.comm),
        time=found.time,
        waits=_lengths(totals.ready_lengths),
        waits_ns=totals.ready_ns,
        rounds=_lengths(totals.round_lengths),
        rounds_ns=totals.round_ns,
        has_ended=has_ended,
    )


def _lengths(array: "Array[int]") -> Histogram:
    return tuple(ffi.unpack(array, lib.HISTOGRAM_BUCKETS))
