"""What is to be measured: which windows, and which events in them."""

from typing import Literal

from msgspec import Struct

from kernel_delay.capture import MAX_EVENTS, MAX_STACKS, STACK_BYTES
from kernel_delay.host.kernel_names import POLLS, RING_ENTRY
from kernel_delay.host.syscalls import Syscall
from kernel_delay.probes import AttachPoint


class TriggerPoints(Struct, frozen=True):
    """A trigger and the places it is at; a USDT probe can be at several.

    `text` is the trigger as the user writes it.
    """

    text: str
    points: tuple[AttachPoint, ...]


EXEC = TriggerPoints("exec", ())
"""A start trigger: that the process executes a program (execve(2)), which opens one window."""


class WindowPlan(Struct, frozen=True):
    """Which windows to measure.

    Without triggers, `count` windows of `sample_time_ns`, `interval_ns`
    apart. `start` opens a window and `stop` closes it: with no `start` it is
    open at once, with no `stop` it lasts `sample_time_ns`. A window shorter
    than `shortest_ns` is not one of the `count`. With `same_thread` only the
    thread that opened a window can close it. `timeout_ns` bounds the wait for
    one hit; None: none.
    """

    sample_time_ns: int
    count: int = 1
    interval_ns: int = 0
    start: TriggerPoints | None = None
    stop: TriggerPoints | None = None
    shortest_ns: int = 0
    same_thread: bool = False
    timeout_ns: int | None = None


SHORTEST_LOOK_NS = 100_000_000
"""Not more often than that is it looked how long rounds are open."""


class RoundPlan(Struct, frozen=True):
    """Which rounds of each thread are reported: those of at least `threshold_ns`.

    After one that was, only longer ones are for `gap_ns`. A round goes from the return of one
    of the system calls `polls` to the next; of io_uring_enter(2) only those count that wait. Or,
    with triggers, which are in user code, from a hit of `start` to one of `stop` in a thread.
    Threads whose name begins with `off_cpu_name`, of at most 8 bytes, are there to run and not to
    poll: their times off the CPUs of at least `off_cpu_round_ns` count as rounds, except what
    they sleep in one of `polls`. With `max_slices` each round has a timeline of no more slices:
    its first and its last; the number is made a power of two. The records of all threads together
    have `record_bytes` at most, but for as many as a few threads need, and so have their timelines
    `timeline_bytes`. Of a storm of long rounds `most_late` are still reported when a signal ends
    it; None: all. With `chains` a record has whom its thread waited for, to the roots. Without
    `calls` polls alone are hooked: what a thread ran in other calls is known by samples.
    """

    threshold_ns: int
    gap_ns: int = 0
    polls: tuple[str, ...] = (*POLLS, RING_ENTRY)
    start: TriggerPoints | None = None
    stop: TriggerPoints | None = None
    off_cpu_round_ns: int | None = None
    off_cpu_name: bytes = b""
    max_slices: int | None = None
    record_bytes: int | None = None
    timeline_bytes: int | None = None
    most_late: int | None = None
    chains: bool = False
    calls: bool = False

    @property
    def suspect_ns(self) -> int:
        """From this length on a round may become long: it is looked at closer then."""
        return self.threshold_ns // 10

    @property
    def soft_irqs_are_late(self) -> bool:
        """Whether soft IRQs of a long round are measured from about that length on.

        Of rounds that may be over before anybody looks they are measured all the time.
        """
        return self.suspect_ns >= SHORTEST_LOOK_NS


MOST_SLICES = 2_000_000
"""Of a window's timeline, unless the user says so: 64 MB."""

StackMode = Literal["auto", "table", "dwarf", "fp", "none"]

WALKING: frozenset[StackMode] = frozenset({"auto", "table"})
"""The modes in which the kernel walks stacks by tables of call frame information."""

COPYING: frozenset[StackMode] = frozenset({"auto", "dwarf"})
"""Those in which stacks are copied; in "auto" where the walk does not reach their end."""


class EventPlan(Struct, frozen=True):
    """Which syscalls are reported one by one.

    Those that are in `syscalls` (None: all) and not in `skipped`, that
    took at least `shortest_ns`. The user stack of each is taken by
    `stack_mode`: unwound by DWARF call frame information from a copy of at
    most `stack_bytes`, or walked in the kernel along frame pointers or by tables. At most
    `max_events` are kept, the longest, and `max_stacks` different stacks.
    They come through a buffer of `buffer_pages`; None: as many as suit the
    machine. `source`: name inlined functions and source lines too.
    """

    shortest_ns: int = 0
    syscalls: frozenset[Syscall] | None = None
    skipped: frozenset[Syscall] = frozenset()
    stack_mode: StackMode = "dwarf"
    stack_bytes: int = STACK_BYTES
    max_stacks: int = MAX_STACKS
    max_events: int = MAX_EVENTS
    buffer_pages: int | None = None
    source: bool = False


class Plan(Struct, frozen=True):
    """All that the programs are to measure.

    Attributes:
        windows: Which windows.
        events: Which syscalls are reported one by one. None: none.
        accounting: Account for all of each thread's time.
        timeline: Note slices of it too, which takes accounting.
        waker_stacks: Note from where threads are woken, which takes accounting too.
        chains: Report whom threads wait for, to the roots, which takes accounting too.
        rounds: Each thread's records are of its rounds, and there are no other windows: from poll
            to poll, or from the start trigger of the windows to their stop trigger, both in user
            code. None: they are of windows.
        totals: Keep sums of each thread since it was there, in its rounds and out of them.
    """

    windows: WindowPlan
    events: EventPlan | None = None
    accounting: bool = True
    timeline: bool = False
    waker_stacks: bool = False
    chains: bool = False
    rounds: RoundPlan | None = None
    totals: bool = False

    @property
    def follows(self) -> bool:
        """Whether those are followed whom threads wait for, in windows or in rounds."""
        in_rounds = self.rounds is not None and self.rounds.chains
        return self.accounting and (self.chains or in_rounds)
