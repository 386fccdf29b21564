"""Where in the kernel a thread slept in a window, and who woke it.

What the programs charged, and what was still going on at the window's end.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.capture.program_options import SLEEP_NS
from kernel_delay.capture.threads import SleepStacks, WakerStack
from kernel_delay.capture.threads.causes import OpenWaits
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.run_queues import taker
from kernel_delay.capture.threads.thread_stats import syscall_of
from kernel_delay.host.kernel_names import ARRAY_POLLS, EPOLLS, FILE_CALLS, SET_POLLS
from kernel_delay.loader._records import lib
from kernel_delay.model import Sleep, SleepFile, SleepReason, Thread, Waker, WakerKind

if TYPE_CHECKING:
    from kernel_delay.loader._records import SleepRecord


WAKER_KINDS: Mapping[int, WakerKind] = {
    lib.WAKER_UNKNOWN: "unknown",
    lib.WAKER_THREAD: "thread",
    lib.WAKER_HARD_IRQ: "hard_irq",
    lib.WAKER_SOFT_IRQ: "soft_irq",
}


# From so much of the window on it matters which file a thread slept on.
FILE_SHARE = 0.05


class _Place(Struct, frozen=True):
    """What distinguishes sleeps.

    `file` is as in struct sleep_record.
    """

    reason: SleepReason
    syscall: str | None
    stack: tuple[str, ...]
    uninterruptible: bool
    file: int = 0


class _Sleeps:
    """Those in one place."""

    __slots__ = ("count", "max_ns", "ns", "short_ns", "wakers")

    def __init__(self) -> None:
        self.count = 0
        self.ns = 0
        self.short_ns = 0
        self.max_ns = 0
        self.wakers: dict[tuple[WakerKind, int, WakerStack], Waker] = {}

    def add(self, count: int, ns: int, max_ns: int, short_ns: int = 0) -> None:
        self.count += count
        self.ns += ns
        self.short_ns += short_ns
        self.max_ns = max(self.max_ns, max_ns)

    def add_waker(self, record: "SleepRecord", stack: WakerStack, *, is_newest: bool) -> None:
        kind = WAKER_KINDS[record.waker_kind]
        who = record.waker
        waker = Waker(
            kind,
            who.tid,
            who.process,
            taker(who).comm if kind == "thread" else "",
            record.sleeps,
            record.total_ns,
            stack.kernel,
            stack.user,
            woke_last=is_newest,
        )
        self._add_waker((kind, who.task, stack), waker)

    def _add_waker(self, key: tuple[WakerKind, int, WakerStack], waker: Waker) -> None:
        if (known := self.wakers.get(key)) is not None:
            waker = replace(
                waker,
                count=waker.count + known.count,
                ns=waker.ns + known.ns,
                woke_last=waker.woke_last or known.woke_last,
            )
        self.wakers[key] = waker

    def add_all(self, other: "_Sleeps") -> None:
        self.add(other.count, other.ns, other.max_ns, other.short_ns)
        for key, waker in other.wakers.items():
            self._add_waker(key, waker)


def with_sleeps(
    thread: Thread,
    parts: ThreadRecords,
    waits: OpenWaits | None,
    stacks: SleepStacks,
    window: tuple[int, int],
) -> Thread:
    """Return the thread, of the window from start to stop, with where it slept.

    `waits` are those at the window's end. All sleeps together are the time that it was blocked.
    """
    assert thread.time is not None
    found: defaultdict[_Place, _Sleeps] = defaultdict(_Sleeps)
    for record in parts.sleeps:
        if count := record.sleeps:
            place = _place(stacks, record.stack, record.syscall, record.uninterruptible)
            slept = found[_on_file(place, record.syscall, record.file)]
            slept.add(count, record.total_ns, record.max_ns, record.short_ns)
            is_newest = waits is not None and record.number == waits.newest_sleep
            slept.add_waker(record, stacks.waker(record.waker_stack), is_newest=is_newest)
    for each_thread in parts.threads:
        account = each_thread.account
        if account.short_sleeps_ns or account.short_sleeps:
            found[_SHORT].add(account.short_sleeps, account.short_sleeps_ns, 0)
        if account.other_sleeps_ns or account.other_sleeps:
            found[_UNKNOWN].add(account.other_sleeps, account.other_sleeps_ns, 0)
    _add_open(found, waits, stacks, window)
    missing_ns = thread.time.blocked_ns - sum([each.ns for each in found.values()])
    if missing_ns < 0:
        # It was being written all the time that it was read, and does not fit together.
        found.clear()
        missing_ns = thread.time.blocked_ns
    if missing_ns:
        found[_UNKNOWN].add(0, missing_ns, 0)
    found = _without_files(found, FILE_SHARE * (window[1] - window[0]))
    each = [_sleep(place, those) for place, those in found.items() if those.ns or those.count]
    each.sort(key=lambda sleep: (-sleep.ns, sleep.reason, "".join(sleep.stack)))
    sleeps = tuple(each)
    return replace(thread, sleeps=sleeps)


_SHORT = _Place("short", None, (), False)
_UNKNOWN = _Place("unknown", None, (), False)


def _place(stacks: SleepStacks, stack: int, syscall: int, uninterruptible: int) -> _Place:
    return _place_of(stacks.names(stack), syscall, bool(uninterruptible))


_ON_FILES = frozenset((*FILE_CALLS, *ARRAY_POLLS))

PLACES_REMEMBERED = 1024
"""As many as there are stacks: threads of one program sleep in few places."""


@lru_cache(PLACES_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def _place_of(names: tuple[str, ...], syscall: int, uninterruptible: bool) -> _Place:
    call = None if syscall == lib.NO_SYSCALL else syscall_of(syscall)
    name = None if call is None else call.name or str(call.number)
    return _Place(sleep_reason(names), name, names, uninterruptible)


def _on_file(place: _Place, syscall: int, file: int) -> _Place:
    """The place with the file, unless the call has none, or its arguments are elsewhere."""
    if not file or syscall & lib.COMPAT_SYSCALL:
        return place
    if place.reason == "poll" and place.syscall in SET_POLLS and not _descriptor(file):
        # Of no descriptor.
        return replace(place, reason="clock")
    if place.syscall in EPOLLS and place.reason != "epoll":
        # It did not wait for what was ready then.
        return place
    return replace(place, file=file) if place.syscall in _ON_FILES else place


def _descriptor(file: int) -> int:
    return (file & 0xFFFFFFFF) - 1


def _file(file: int) -> SleepFile | None:
    """A descriptor, and 1, and above that 32 bits of an inode's number: see struct sleep_record."""
    return SleepFile(fd=_descriptor(file), inode=file >> 32) if file else None


def _without_files(
    found: defaultdict[_Place, _Sleeps], least_ns: float
) -> defaultdict[_Place, _Sleeps]:
    """Return the same without the files on which it slept less."""
    if not any(place.file for place in found):
        return found
    kept: defaultdict[_Place, _Sleeps] = defaultdict(_Sleeps)
    for place, slept in found.items():
        is_kept = not place.file or (least_ns and slept.ns >= least_ns)
        kept[place if is_kept else replace(place, file=0)].add_all(slept)
    return kept


def _add_open(
    found: defaultdict[_Place, _Sleeps],
    waits: OpenWaits | None,
    stacks: SleepStacks,
    window: tuple[int, int],
) -> None:
    """Add the sleep that goes on at the window's end."""
    if waits is None or waits.thread_state.state != "blocked":
        return
    start_ns, stop_ns = window
    now = waits.thread_state
    ns = now.lasts_until_ns(stop_ns) - max(start_ns, now.state_since_ns)
    if ns <= 0:
        return
    if not waits.sleep_stack and ns < SLEEP_NS:
        found[_SHORT].add(1, ns, 0)
        return
    call = waits.thread_state.syscall
    number = lib.NO_SYSCALL if call is None else call
    place = _place(stacks, waits.sleep_stack, number, waits.uninterruptible)
    found[_on_file(place, number, waits.sleep_file)].add(1, ns, ns)


def _sleep(place: _Place, sleeps: _Sleeps) -> Sleep:
    wakers = list(sleeps.wakers.values())
    wakers.sort(key=lambda waker: (-waker.ns, waker.tid, waker.user_stack))
    return Sleep(
        reason=place.reason,
        syscall=place.syscall,
        stack=place.stack,
        uninterruptible=place.uninterruptible,
        count=sleeps.count,
        ns=sleeps.ns,
        max_ns=sleeps.max_ns,
        short_ns=sleeps.short_ns,
        wakers=tuple(wakers),
        file=_file(place.file),
    )
