"""Who ended a thread's waits: one thread, or those of a name together."""

from collections.abc import Sequence

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import share
from kernel_delay.model import Sample, Sleep, Thread, Waker

# From so much of the sleep on its waker is named: interrupts or timeouts ended the rest.
ENDED_SHARE = 0.25

# Of so much of a sleep it is known who ended it, or else there may have been more of them.
ALL_SHARE = 0.9


LOCKING_COMMAND = "flock"
"""What locks a file for a shell: flock(1)."""


class MainWaker(Struct, frozen=True):
    """The thread, or those of a name, that ended most; ids are 0 where they are several.

    `are_processes`: they are the first threads of as many processes, as of programs that a shell
    starts.
    """

    comm: str
    tid: int
    pid: int
    threads: int
    ended: str
    ns: int
    are_processes: bool = False

    def text(self, sample: Sample, time: str = "that time") -> str:
        """What they did, as a part of the wait, which `time` calls: a sentence."""
        if self.threads > 1:
            what = "processes" if self.are_processes else "threads"
            who = f"{self.threads} {what} named {self.comm}"
        else:
            who = f"{self.comm} ({self.tid})"
        return f"{who}{_of_process(sample, self.pid, self.tid)} ended {self.ended} of {time}."


def _of_process(sample: Sample, pid: int, tid: int) -> str:
    """Which process a thread is of; nothing of the one with the number of its process."""
    if pid == sample.target.pid:
        return " of the same process"
    return f" of process {pid}" if pid not in (0, tid) else ""


def waits_ended_by(slept: Sequence[Sleep], comm: str) -> int:
    """Return how many waits threads of that name ended."""
    return sum(waker.count for sleep in slept for waker in sleep.wakers if waker.comm == comm)


def most_frequent_waker(
    sample: Sample, slept: Sequence[Sleep], where: str = ""
) -> tuple[int, str] | None:
    """Return the thread that ended most of the waits, by number, and a sentence on it.

    None if no thread is known to have ended one. `where` the waits were stands behind "woke it".
    """
    counts: dict[tuple[str, int, int], int] = {}
    for waker in (waker for sleep in slept for waker in sleep.wakers):
        if waker.kind == "thread" and waker.tid:
            who = (waker.comm, waker.tid, waker.pid)
            counts[who] = counts.get(who, 0) + waker.count
    if not counts:
        return None
    (comm, tid, pid), count = max(counts.items(), key=lambda each: (each[1], -each[0][1]))
    if count == 1 and len(counts) > 1:
        one = f"{comm} ({tid}){_of_process(sample, pid, tid)}"
        return tid, f"{len(counts):,} threads woke it{where}, once each: {one} is one of them."
    often = "once" if count == 1 else f"{count:,} times"
    most = " most often" if len(counts) > 1 else ""
    return tid, f"{comm} ({tid}){_of_process(sample, pid, tid)} woke it{where}{most}, {often}."


def last_waker(
    sample: Sample, slept: Sequence[Sleep], named: int, where: str = ""
) -> tuple[str, ...]:
    """Say which thread ended the newest wait, unless it is the one that is named already.

    Nothing if that is not known, or was an interrupt. `where` the waits were stands behind "woke
    it".
    """
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    last = next((w for w in wakers if w.woke_last and w.kind == "thread" and w.tid), None)
    if last is None or last.tid == named:
        return ()
    return (
        f"{last.comm} ({last.tid}){_of_process(sample, last.pid, last.tid)} woke it{where} last.",
    )


def main_waker(slept: Sequence[Sleep], found_ns: int = 0) -> MainWaker | None:
    """Return who ended most, of threads; None where that is too little to be reported.

    Of many that have one name, as each request's process, none matters by itself. A wait that is
    still going on, nobody has ended. `found_ns` is the time that the finding is about, if more.
    """
    wakers = [waker for sleep in slept for waker in sleep.wakers]
    if not any(waker.kind == "thread" for waker in wakers):
        return None
    all_ns = max(sum(waker.ns for waker in wakers), sum(sleep.ns for sleep in slept), found_ns)
    of_name: dict[str, list[Waker]] = {}
    for waker in wakers:
        if waker.kind == "thread" and waker.tid:
            of_name.setdefault(waker.comm, []).append(waker)
    comm = max(of_name, key=lambda name: sum(waker.ns for waker in of_name[name]), default=None)
    if comm is None or sum(waker.ns for waker in of_name[comm]) < ENDED_SHARE * all_ns:
        return None
    ns_of: dict[int, int] = {}
    for waker in of_name[comm]:
        ns_of[waker.tid] = ns_of.get(waker.tid, 0) + waker.ns
    tid = max(ns_of, key=lambda each: ns_of[each])
    if 2 * ns_of[tid] >= sum(ns_of.values()):
        pid = next(waker.pid for waker in of_name[comm] if waker.tid == tid)
        return MainWaker(comm, tid, pid, 1, share(ns_of[tid], all_ns), ns_of[tid])
    pids = {waker.pid for waker in of_name[comm]}
    pid = next(iter(pids)) if len(pids) == 1 else 0
    ns = sum(ns_of.values())
    are_processes = pids == ns_of.keys()
    # A thread has not room for all who woke it.
    least = "" if sum(waker.ns for waker in wakers) >= ALL_SHARE * all_ns else "at least "
    ended = f"{least}{share(ns, all_ns)}"
    return MainWaker(comm, 0, pid, len(ns_of), ended, ns, are_processes)


def timed_out(sample: Sample, thread: Thread, slept: Sequence[Sleep]) -> bool:
    """Return whether a time-out ended each of the calls in which it slept, as far as they ended."""
    names = {sleep.syscall for sleep in slept}
    calls = [call for call in thread.syscalls if call.name in names]
    ended = sum(call.count + call.across for call in calls)
    # What was missed may have ended otherwise, and so may a call that is not known.
    lost = sample.lost.missed_calls + sample.lost.missed_threads + sample.lost.dropped_records
    is_known = None not in names and not lost and "calls" not in sample.unseen
    return is_known and 0 < ended == sum(call.timed_out for call in calls)
