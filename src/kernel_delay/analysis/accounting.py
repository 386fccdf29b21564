"""Every nanosecond of a window: what the programs counted, and what was still going on.

A thread is always in one mode (in its program, in a system call, in a page
fault; a kernel worker in its work) and in one state (running, or why not). The
intervals of its modes and its absence follow one on the other without a gap, so
within a window they sum up to it exactly; the states off a CPU, interrupts and the
tool's own work are time taken off the mode in which they came. bpf/accounting.h
is the side that counts.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple, replace

from kernel_delay.model import ThreadTime

Mode = Literal["unknown", "user", "syscall", "fault", "worker"]
State = Literal[
    "unknown", "running", "ready_woken", "ready_preempted", "blocked", "stopped", "absent",
    "throttled", "frozen",
]  # fmt: skip
NotRunning = Literal[
    "ready_woken", "ready_preempted", "blocked", "stopped", "throttled", "frozen", "unknown",
    "guest", "hard_irq", "soft_irq", "tool",
]  # fmt: skip

NOT_RUNNING: tuple[NotRunning, ...] = (
    "ready_woken", "ready_preempted", "blocked", "stopped", "throttled", "frozen", "unknown",
    "guest", "hard_irq", "soft_irq", "tool",
)  # fmt: skip

# Those that are charged to a call as well.
OF_CALLS = NOT_RUNNING[:8]


class ThreadState(Struct, frozen=True, gc=False):
    """What a thread does, and since when: 0 is before anything was known.

    `syscall` is the number of the call it is in, None if it is in none.
    `throttled_ns`, in the window, it did not wait for the CPU that it waits for.
    Interrupts are served on its time since `hard_irq_since_ns` and `soft_irq_since_ns`, 0 if
    none is; `soft_irq_lost_ns`, in the window, was not the soft one's own. A thread whose
    state is unknown has done something else since `state_since_ns` that was not seen. One that
    sleeps was frozen in its sleep from `frozen_since_ns` on, if that is not 0, and from
    `blocked_until_ns` to then it is not known whether it was.
    """

    mode: Mode
    mode_since_ns: int
    state: State
    state_since_ns: int
    syscall: int | None
    throttled_ns: int = 0
    hard_irq_since_ns: int = 0
    soft_irq_since_ns: int = 0
    soft_irq_lost_ns: int = 0
    blocked_until_ns: int = 0
    frozen_since_ns: int = 0

    def is_interrupted_at(self, stop_ns: int) -> bool:
        """Return whether it was in an interrupt then, as far as is known."""
        hard_ns, soft_ns = self.hard_irq_since_ns, self.soft_irq_since_ns
        return (hard_ns and hard_ns < stop_ns) or (soft_ns and soft_ns < stop_ns) or False

    def known_until_ns(self) -> int:
        """Return when what is said of the state was known to begin, or to end if it is unknown."""
        if self.state == "unknown":
            return max(self.state_since_ns, self.mode_since_ns)
        return self.state_since_ns

    def lasts_until_ns(self, stop_ns: int) -> int:
        """Return until when it is known to be in its state, in a window that ends then."""
        return min(stop_ns, self.blocked_until_ns) if self.frozen_since_ns else stop_ns

    def unknown_and_frozen_ns(self, start_ns: int, stop_ns: int) -> tuple[int, int]:
        """Return how long of [start_ns, stop_ns) a sleeper may have been frozen, and was."""
        if not self.frozen_since_ns:
            return 0, 0
        frozen_from_ns = min(stop_ns, max(start_ns, self.frozen_since_ns))
        blocked_until_ns = max(self.state_since_ns, self.blocked_until_ns)
        unknown_from_ns = min(frozen_from_ns, max(start_ns, blocked_until_ns))
        return frozen_from_ns - unknown_from_ns, stop_ns - frozen_from_ns


class CountedCalls(Struct, frozen=True, gc=False):
    """All time in calls of one system call within a window, and what of it was off a CPU."""

    total_ns: int
    not_running_ns: Mapping[NotRunning, int]


class Counted(Struct, frozen=True, gc=False):
    """What was counted of one thread in one window, up to its last event.

    `exit_ns` is when it ended, None if it did not.
    """

    mode_ns: Mapping[Mode, int]
    not_running_ns: Mapping[tuple[Mode, NotRunning], int]
    absent_ns: int
    exit_ns: int | None
    syscalls: Mapping[int, CountedCalls]


class CallTime(Struct, frozen=True, gc=False):
    """Where all time in calls of one system call went; see SyscallStats."""

    on_cpu_ns: int
    ready_ns: int
    blocked_ns: int
    stopped_ns: int
    guest_ns: int
    unaccounted_ns: int


class Account(Struct, frozen=True, gc=False):
    """Where a thread's window went.

    `preempted_ns` is a share of `time.ready_ns`, the fault times are shares of
    `time.kernel_ns` and `time.blocked_ns`. `call_soft_irq_ns`, a share of
    `time.soft_irq_ns`, came while the thread was in a system call.

    `missing_ns` is what the parts lack of the window: 0 when all is accounted
    for, below 0 when what was read does not fit together. `calls_fit`: the
    calls make up all time in the mode that is theirs, on a CPU and off it.
    """

    time: ThreadTime
    preempted_ns: int
    fault_on_cpu_ns: int
    fault_blocked_ns: int
    call_soft_irq_ns: int
    syscalls: Mapping[int, CallTime]
    missing_ns: int
    calls_fit: bool


NOTHING_COUNTED = Counted(mode_ns={}, not_running_ns={}, absent_ns=0, exit_ns=None, syscalls={})


def account(start_ns: int, stop_ns: int, counted: Counted, last: ThreadState | None) -> Account:
    """Account for [start_ns, stop_ns) of one thread.

    `last` is the state of the thread after its last event before `stop_ns`,
    or after any event since; None if that is not known, or it has ended.
    """
    # Not Counters: to make those takes a tenth of the time of a report of thousands of threads.
    mode_ns, not_running_ns = (
        defaultdict(int, counted.mode_ns),
        defaultdict(int, counted.not_running_ns),
    )
    call_ns: defaultdict[int, int] = defaultdict(int)
    call_not_running_ns: defaultdict[int, defaultdict[NotRunning, int]] = defaultdict(
        lambda: defaultdict(int)
    )
    for number, calls in counted.syscalls.items():
        call_ns[number] = calls.total_ns
        call_not_running_ns[number].update(calls.not_running_ns)
    absent_ns = counted.absent_ns

    def rest_ns(since_ns: int) -> int:
        return max(0, stop_ns - max(start_ns, since_ns))

    if counted.exit_ns is not None:
        absent_ns += rest_ns(counted.exit_ns)
    elif last is not None and last.state == "absent":
        absent_ns += rest_ns(last.state_since_ns)
    elif last is not None:
        mode_ns[last.mode] += rest_ns(last.mode_since_ns)
        if last.syscall is not None:
            call_ns[last.syscall] += rest_ns(last.mode_since_ns)
        if last.state in NOT_RUNNING:
            off_ns = rest_ns(last.known_until_ns())
            unknown_ns, frozen_ns = last.unknown_and_frozen_ns(start_ns, stop_ns)
            states: tuple[tuple[NotRunning, int], ...] = (
                (last.state, off_ns - last.throttled_ns - unknown_ns - frozen_ns),
                ("throttled", last.throttled_ns),
                ("unknown", unknown_ns),
                ("frozen", frozen_ns),
            )
            for kind, ns in states:
                not_running_ns[last.mode, kind] += ns
                if last.syscall is not None:
                    call_not_running_ns[last.syscall][kind] += ns
        for irq, ns in _interrupts(last, rest_ns):
            not_running_ns[last.mode, irq] += ns

    missing_ns = stop_ns - start_ns - absent_ns - sum(mode_ns.values())
    time = _time(mode_ns, not_running_ns, absent_ns, max(0, missing_ns))
    fault_ns = 0
    if mode_ns.get("fault"):
        fault_ns = max(0, _running_ns("fault", mode_ns, not_running_ns))
    return Account(
        time=time,
        preempted_ns=_total("ready_preempted", not_running_ns),
        fault_on_cpu_ns=min(fault_ns, time.kernel_ns),
        fault_blocked_ns=not_running_ns["fault", "blocked"],
        call_soft_irq_ns=not_running_ns["syscall", "soft_irq"],
        syscalls=_within_kernel(
            time,
            {
                number: _call_time(total_ns, call_not_running_ns[number])
                for number, total_ns in call_ns.items()
                if total_ns
            },
        ),
        missing_ns=missing_ns,
        calls_fit=sum(call_ns.values()) == mode_ns["syscall"]
        and _make_up(call_not_running_ns.values(), not_running_ns),
    )


def _make_up(
    calls_ns: Iterable[Mapping[NotRunning, int]],
    not_running_ns: Mapping[tuple[Mode, NotRunning], int],
) -> bool:
    """Return whether the calls make up all time not running in the mode that is theirs."""
    left_ns = defaultdict(
        int, {kind: ns for (mode, kind), ns in not_running_ns.items() if mode == "syscall"}
    )
    for each in calls_ns:
        for kind, ns in each.items():
            left_ns[kind] -= ns
    return not any(ns and kind in OF_CALLS for kind, ns in left_ns.items())


def _interrupts(
    last: ThreadState, rest_ns: Callable[[int], int]
) -> Iterator[tuple[NotRunning, int]]:
    """Yield how long the interrupts that the window's end is in took until then."""
    hard_irq_ns = rest_ns(last.hard_irq_since_ns) if last.hard_irq_since_ns else 0
    yield "hard_irq", hard_irq_ns
    if last.soft_irq_since_ns:
        within_ns = hard_irq_ns if last.hard_irq_since_ns >= last.soft_irq_since_ns else 0
        soft_irq_ns = rest_ns(last.soft_irq_since_ns) - last.soft_irq_lost_ns - within_ns
        yield "soft_irq", max(0, soft_irq_ns)


def unaccounted(found: Account, window_ns: int) -> Account:
    """Return the same account of a thread of which nothing that was read fits together."""
    return Account(
        time=_time({}, {}, 0, window_ns),
        preempted_ns=0,
        fault_on_cpu_ns=0,
        fault_blocked_ns=0,
        call_soft_irq_ns=0,
        syscalls={
            number: CallTime(0, 0, 0, 0, 0, unaccounted_ns=sum(astuple(each)))
            for number, each in found.syscalls.items()
        },
        missing_ns=found.missing_ns,
        calls_fit=found.calls_fit,
    )


def _time(
    mode_ns: Mapping[Mode, int],
    not_running_ns: Mapping[tuple[Mode, NotRunning], int],
    absent_ns: int,
    missing_ns: int,
) -> ThreadTime:
    total_ns: defaultdict[NotRunning, int] = defaultdict(int)
    running_ns = defaultdict(int, mode_ns)
    for (mode, kind), ns in not_running_ns.items():
        total_ns[kind] += ns
        running_ns[mode] -= ns
    # Before its first event a thread that runs is most likely in its program.
    user_ns = running_ns["user"] + running_ns["unknown"]
    kernel_ns = running_ns["syscall"] + running_ns["fault"] + running_ns["worker"]
    # An interrupt in the few instructions in which a mode changes can be
    # charged to the wrong one of two; what both are together is right.
    if user_ns < 0:
        user_ns, kernel_ns = 0, kernel_ns + user_ns
    elif kernel_ns < 0:
        user_ns, kernel_ns = user_ns + kernel_ns, 0
    # One can also be counted while it is not known what the thread does, and time off a CPU in a
    # mode whose end was not seen.
    if (excess_ns := -user_ns - kernel_ns) > 0:
        from_unknown_ns = min(total_ns["unknown"], excess_ns)
        from_missing_ns = min(missing_ns, excess_ns - from_unknown_ns)
        total_ns["unknown"] -= from_unknown_ns
        missing_ns -= from_missing_ns
        user_ns, kernel_ns = 0, from_unknown_ns + from_missing_ns - excess_ns
    return ThreadTime(
        user_ns=user_ns,
        kernel_ns=kernel_ns,
        hard_irq_ns=total_ns["hard_irq"],
        soft_irq_ns=total_ns["soft_irq"],
        ready_ns=total_ns["ready_woken"] + total_ns["ready_preempted"],
        blocked_ns=total_ns["blocked"],
        stopped_ns=total_ns["stopped"],
        absent_ns=absent_ns,
        unaccounted_ns=missing_ns + total_ns["unknown"],
        guest_ns=total_ns["guest"],
        throttled_ns=total_ns["throttled"],
        frozen_ns=total_ns["frozen"],
        tool_ns=total_ns["tool"],
    )


def _total(kind: NotRunning, not_running_ns: Mapping[tuple[Mode, NotRunning], int]) -> int:
    """Time not running of one kind, whatever the mode."""
    return sum([ns for (_, its), ns in not_running_ns.items() if its == kind])


def _running_ns(
    mode: Mode, mode_ns: Mapping[Mode, int], not_running_ns: Mapping[tuple[Mode, NotRunning], int]
) -> int:
    """Time on a CPU in `mode`, without interrupts."""
    return mode_ns.get(mode, 0) - sum([not_running_ns.get((mode, kind), 0) for kind in NOT_RUNNING])


def _within_kernel(time: ThreadTime, calls: Mapping[int, CallTime]) -> Mapping[int, CallTime]:
    """Return the calls with no more time on a CPU than the thread has in the kernel.

    Where an event was missed they can have more: what is beyond that is not accounted for.
    """
    in_kernel_ns = time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + time.tool_ns
    excess_ns = sum([each.on_cpu_ns for each in calls.values()]) - in_kernel_ns
    if excess_ns <= 0:
        return calls
    found = {}
    for number, each in calls.items():
        cut_ns = min(excess_ns, each.on_cpu_ns)
        excess_ns -= cut_ns
        found[number] = replace(
            each, on_cpu_ns=each.on_cpu_ns - cut_ns, unaccounted_ns=each.unaccounted_ns + cut_ns
        )
    return found


def _call_time(total_ns: int, not_running_ns: Mapping[NotRunning, int]) -> CallTime:
    if not any(not_running_ns.values()):
        return CallTime(max(0, total_ns), 0, 0, 0, 0, 0)
    ready_ns = not_running_ns.get("ready_woken", 0) + not_running_ns.get("ready_preempted", 0)
    blocked_ns = not_running_ns.get("blocked", 0)
    # Somebody or some limit keeps it from running. A single call does not distinguish these.
    stopped_ns = sum([not_running_ns.get(kind, 0) for kind in ("stopped", "throttled", "frozen")])
    guest_ns, unknown_ns = not_running_ns.get("guest", 0), not_running_ns.get("unknown", 0)
    off_ns = ready_ns + blocked_ns + stopped_ns + guest_ns + unknown_ns
    return CallTime(
        on_cpu_ns=max(0, total_ns - off_ns),
        ready_ns=ready_ns,
        blocked_ns=blocked_ns,
        stopped_ns=stopped_ns,
        guest_ns=guest_ns,
        unaccounted_ns=unknown_ns,
    )
