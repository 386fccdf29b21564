"""What a followed thread did for a while, who ended that, and as what it is part of a chain."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from kernel_delay.analysis.chain_roots import ROOT_REASONS, StateSlice
from kernel_delay.host.kernel_names import ACCEPTS, WRITES
from kernel_delay.host.syscalls import syscall_name
from kernel_delay.model import POLL_REASONS, ChainGap, ChainState, SleepReason, WakerKind

# include/uapi/linux/wait.h
P_ALL = 0

# What wait4(2) has above is a negative number: any child, or any of a group.
LAST_PID = (1 << 31) - 1


class Place(Struct, frozen=True):
    """Where a thread sleeps.

    Attributes:
        reason: What for, by the kernel's functions.
        syscall: The number of the call; negative: none that is known.
        fd: Its first argument.
        inode: That of this descriptor; 0: not known.
        device: That of its file system; 0: not known.
    """

    reason: SleepReason = "unknown"
    syscall: int = -1
    fd: int = 0
    inode: int = 0
    device: int = 0


# In these sleeps a thread works for no client: another thread of its process is to wake it.
_OF_OWN_PROCESS: frozenset[SleepReason] = frozenset(("futex", "signal"))


def is_of_own(place: Place) -> bool:
    """Whether a thread that sleeps there waits for its own process."""
    return place.reason in _OF_OWN_PROCESS


def is_accept(place: Place) -> bool:
    """Whether a thread that sleeps there waits for clients to connect."""
    return place.syscall >= 0 and syscall_name(place.syscall) in ACCEPTS


def writes_to_terminal(place: Place) -> bool:
    """Whether a thread that sleeps there waits until its terminal is read.

    Another process has the other end of a pseudo-terminal. Who reads there waits for a person.
    """
    is_write = place.syscall >= 0 and syscall_name(place.syscall) in WRITES
    return is_write and place.reason == "terminal"


def is_for_others(place: Place) -> bool:
    """Whether another thread is to end a sleep there."""
    return place.reason not in ROOT_REASONS or writes_to_terminal(place)


class Was(Struct, frozen=True):
    """What a thread did for a while, and who ended that: a slice whose waker is not judged yet.

    The waker of a thread that was runnable is the task that had its CPU, of one that was stopped
    who did that. `awaited` is the one process that has the other ends of all files that it polled,
    the file's lock, or serves its FUSE file system; 0: there are several, or none. `lasts`: it
    still does that. `woke`: it ran, and woke a thread that is followed, or forked. `by_child`: the
    waker is a child that ended, also where that was not waited for.
    """

    since_ns: int
    until_ns: int
    state: ChainState
    place: Place | None = None
    waker: int = 0
    waker_process: int = 0
    waker_kind: WakerKind = "unknown"
    awaited: int = 0
    lasts: bool = False
    woke: bool = False
    by_child: bool = False


class Ender(NamedTuple):
    """Who ends a sleep: a thread of a process, or else why that is not known.

    With the gap "threads" the thread stands for its process, of which one thread does. With "ran"
    it is the one that ran most. With "interrupt" it stands for the process at the other end, of
    which none did.
    """

    tid: int = 0
    gap: ChainGap | None = None
    process: int = 0

    @property
    def is_known(self) -> bool:
        """Whether it is known which thread or process ends the sleep."""
        return self.tid > 0 and self.gap != "interrupt"


def merged(slices: Sequence[Was], within_ns: int) -> list[Was]:
    """Return the slices with equal ones next to each other merged into one.

    The time of each state stays exact. A sleep that another thread ends stays where it is: what
    both did then belongs together.

    Args:
        slices: Those of one thread, sorted and disjoint.
        within_ns: Slices that together take no longer than this change their order.
    """
    found: list[Was] = []
    group: list[Was] = []
    for was in slices:
        is_next = group and group[-1].until_ns == was.since_ns
        if not is_next or not _merges(was) or was.until_ns - group[0].since_ns > within_ns:
            found += _by_kind(group)
            group = []
        if _merges(was):
            group.append(was)
        else:
            found.append(was)
    return [*found, *_by_kind(group)]


def fewest(slices: Sequence[Was]) -> int:
    """Return how many are left at least if all are merged that can be."""
    merges = [_merges(was) for was in slices]
    return len(merges) - sum(each and following for each, following in pairwise(merges))


def _merges(was: Was) -> bool:
    """Whether no other thread took part."""
    if was.state != "blocked":
        return True
    return was.place is not None and not is_for_others(was.place)


def _by_kind(group: Sequence[Was]) -> Iterator[Was]:
    """Yield one slice of each state, place and CPU's taker, one after the other."""
    lengths: dict[tuple[ChainState, Place | None, int], int] = {}
    for was in group:
        # Who was interrupted when the disk was ready has nothing to do with that.
        taker = was.waker if was.state != "blocked" else 0
        key = was.state, was.place, taker
        lengths[key] = lengths.get(key, 0) + was.until_ns - was.since_ns
    since_ns = group[0].since_ns if group else 0
    for (state, place, taker), length_ns in lengths.items():
        yield Was(since_ns, since_ns + length_ns, state, place, taker)
        since_ns += length_ns


def gap_of(was: Was) -> ChainGap | None:
    """Why it is not known who ended a sleep that no thread did."""
    if was.lasts:
        return "lasts"
    return "interrupt" if was.waker_kind in ("hard_irq", "soft_irq") else None


def is_interrupted(was: Was) -> bool:
    """Whether it was a poll that none of its files ended, or a futex wait that a time-out did.

    Who waits for Python's interpreter lock does so for 5 ms at a time.
    """
    reason = was.place.reason if was.place is not None else "unknown"
    if reason == "futex":
        return was.waker_kind == "hard_irq"
    return reason in POLL_REASONS and was.waker_kind in ("hard_irq", "unknown")


def is_for_any_child(place: Place | None) -> bool:
    """Whether a thread that sleeps there waits for any child, or any of a group, to end."""
    if place is None or place.reason != "child" or place.syscall < 0:
        return False
    name = syscall_name(place.syscall)
    if name == "wait4":
        return not 0 < place.fd <= LAST_PID
    # Which child waitid(2) asks for is its second argument. A signal may be any one's.
    return name != "waitid" or place.fd == P_ALL


def slice_of(
    was: Was, ender: Ender, ended_ns: int, *, by_client: bool = False, is_idle: bool = False
) -> StateSlice:
    """Return a slice whose sleep that thread, maybe of a client, ends then; 0: it lasts."""
    reason = was.place.reason if was.place is not None and was.state == "blocked" else None
    if reason == "futex" and was.waker_kind == "hard_irq" and not ender.tid:
        # Nothing else than a time-out ends it there.
        reason = "clock"
    device = was.place.device if was.place is not None else 0
    syscall = was.place.syscall if was.place is not None and was.state == "blocked" else -1
    return StateSlice(
        was.since_ns,
        was.until_ns,
        was.state,
        reason,
        ender.tid,
        device,
        syscall,
        ender.gap,
        ended_ns,
        by_client,
        is_idle,
        was.place is not None and writes_to_terminal(was.place),
    )
