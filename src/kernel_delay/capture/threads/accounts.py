"""Whose time is to be accounted for in a window, from which records, and up to what.

A thread's record of an epoch has its state before its first event in that epoch,
which is its state when the epochs before ended. For those after its last event an
iterator dumps its state now: before the records are read and after, as what a
thread does in between may be charged in a record that is read already, or be
dumped and charged as well.
"""

from collections.abc import Container, Mapping

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.accounting import (
    NOTHING_COUNTED,
    Account,
    Mode,
    account,
    unaccounted,
)
from kernel_delay.capture.threads.causes import OpenWaits
from kernel_delay.capture.threads.counting import (
    DumpedThread,
    StateChanges,
    counted,
    epoch_of,
    open_waits,
)
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.run_queues import CpuSlices, waited
from kernel_delay.capture.threads.thread_stats import ThreadName, name_of


class ThreadSnapshot(Struct, frozen=True):
    """The records of the epoch's window [start_ns, stop_ns), and what its threads do since.

    `own` are copies of that epoch's records, and `newer` those of the first epoch after it that
    a thread has any of, as they are. `before` is what the threads did before these were read
    and copied, and `after` what they did then.
    `slices` are those of the CPUs that any of them waits for.
    """

    epoch: int
    start_ns: int
    stop_ns: int
    own: Mapping[int, ThreadRecords]
    newer: Mapping[int, ThreadRecords]
    slices: Mapping[int, CpuSlices]
    before: Mapping[int, DumpedThread]
    after: Mapping[int, StateChanges]


class WholeSleep(Struct, frozen=True, gc=False):
    """All that an account has of a thread that slept from before the window to after its end.

    As OpenWaits has it. `process` is that of a thread which waits for a lock, else 0.
    """

    mode: Mode
    syscall: int | None
    stack: int
    file: int
    uninterruptible: bool
    lock: int
    owner: int
    process: int
    kernel_worker: bool


def whole_sleep(name: ThreadName, waits: OpenWaits, start_ns: int) -> WholeSleep | None:
    """Return the sleep of a thread without an event since `start_ns`; None if it is not all."""
    now = waits.thread_state
    if now.state != "blocked" or now.state_since_ns > start_ns or now.mode_since_ns > start_ns:
        return None
    if now.hard_irq_since_ns or now.soft_irq_since_ns or now.frozen_since_ns:
        return None
    return WholeSleep(
        now.mode,
        now.syscall,
        waits.sleep_stack,
        waits.sleep_file,
        waits.uninterruptible,
        waits.lock,
        waits.owner,
        name.process if waits.owner else 0,
        name.kernel_worker,
    )


class ThreadAccount(Struct, frozen=True, gc=False):
    """A thread that was there in a window, its records of that, and where its time went.

    `last` is its state as it was dumped, None if that does not matter.
    `waits` are those at the window's end. `fits`: all is accounted for.
    `sleep`: it slept throughout, and so did others; those with the same one only differ in names.
    """

    identity: int
    name: ThreadName
    parts: ThreadRecords
    account: Account
    last: DumpedThread | None
    waits: OpenWaits | None
    fits: bool
    sleep: "WholeSleep | None" = None

    def settled(self, after: Mapping[int, StateChanges], stop_ns: int) -> bool:
        """Return whether all fits, with the threads as they were dumped `after` it was read.

        What a thread does after a window is not charged to it, but for what
        then ends and began within: an interrupt is reported at its end.
        """
        if self.last is None or not self.fits:
            return self.fits
        changes = self.last.state_changes
        if changes % 2 or self.last.thread_state.is_interrupted_at(stop_ns):
            return False
        return not _has_changed(self.last, after.get(self.identity), stop_ns)

    def is_as_before(self, earlier: "ThreadAccount", stop_ns: int) -> bool:
        """Return whether to read it again showed nothing new, and nothing is to come of it."""
        if self.is_being_written():
            return False
        if self.account != earlier.account or (self.last is None) != (earlier.last is None):
            return False
        if self.last is None or earlier.last is None:
            return True
        changes = self.last.state_changes
        if changes % 2 or self.last.thread_state.is_interrupted_at(stop_ns):
            return False
        return changes == earlier.last.state_changes

    def is_being_written(self) -> bool:
        """Return whether a program was amid it: in a change of its state, or has charged twice."""
        changes = self.last is not None and self.last.state_changes % 2 == 1
        return changes or self.account.missing_ns < 0

    def has_unknown_end(self, stop_ns: int) -> bool:
        """Return whether an event of it was missed, since which its state is not known."""
        if self.last is None or self.last.thread_state.state != "unknown":
            return False
        return self.last.thread_state.known_until_ns() < stop_ns


def changed_threads(snapshot: ThreadSnapshot) -> set[int]:
    """Return the threads that did something while the snapshot's records were read.

    It may be in the records, or not. Their accounts are none to keep.
    """
    after, newer, stop_ns = snapshot.after, snapshot.newer, snapshot.stop_ns
    return {
        identity
        for identity, dumped in snapshot.before.items()
        if identity not in newer and _has_changed(dumped, after.get(identity), stop_ns)
    }


def _has_changed(before: DumpedThread, after: StateChanges | None, stop_ns: int) -> bool:
    """Return whether a thread's state has changed since, and that can be of the window."""
    state = before.thread_state
    if state.state_since_ns >= stop_ns:
        return False
    return after is None or after.count != before.state_changes or after.state != state.state


def thread_accounts(snapshot: ThreadSnapshot, known: Container[int] = ()) -> list[ThreadAccount]:
    """Account for the snapshot's window, of all threads that were there.

    Threads whose identity is in `known` are left out.
    """
    epoch, start_ns, stop_ns = snapshot.epoch, snapshot.start_ns, snapshot.stop_ns
    own, newer, now = snapshot.own, snapshot.newer, snapshot.before
    found = []
    # Most threads of a machine sleep, in few places: each place is accounted for once.
    slept: dict[WholeSleep, tuple[Account, bool]] = {}
    nothing = ThreadRecords.none()
    identities: dict[int, None] = dict.fromkeys([*own, *newer, *now])
    for identity in identities:
        if identity in known:
            continue
        records = own.get(identity)
        dumped = now.get(identity)
        if records is None and dumped is not None and identity not in newer:
            sleep = whole_sleep(dumped.name, dumped.waits, start_ns)
            if sleep is not None and dumped.epoch <= epoch:
                if sleep not in slept:
                    slept[sleep] = account_of(start_ns, stop_ns, nothing, dumped.waits)
                account, fits = slept[sleep]
                found.append(
                    ThreadAccount(
                        identity, dumped.name, nothing, account, dumped, dumped.waits, fits, sleep
                    )
                )
                continue
        if records is None and dumped is not None and _is_later(dumped, epoch, stop_ns):
            continue
        waits = _last_waits(newer.get(identity), dumped, epoch)
        if waits is not None:
            waits = _with_throttling(waits, snapshot)
        name = _name(records, newer.get(identity), dumped)
        parts = records or ThreadRecords.none()
        account, fits = account_of(start_ns, stop_ns, parts, waits)
        if account.time.absent_ns < stop_ns - start_ns:
            dumped = None if identity in newer else dumped
            found.append(ThreadAccount(identity, name, parts, account, dumped, waits, fits))
    return found


def _is_later(dumped: DumpedThread, epoch: int, stop_ns: int) -> bool:
    """Return whether the thread, of which the epoch has no record, came after its window.

    See is_later() in bpf/thread_record.h. If a newer record had no room, only the time at which
    the thread was made shows that.
    """
    if dumped.made_ns >= stop_ns:
        return True
    return dumped.epoch < epoch and dumped.thread_state.mode_since_ns >= stop_ns


def account_of(
    start_ns: int, stop_ns: int, parts: ThreadRecords, waits: OpenWaits | None
) -> tuple[Account, bool]:
    """Return where the window of these records went, and whether all of it fits together.

    `waits` are those at the window's end; None where nothing was going on then.
    """
    last = waits.thread_state if waits else None
    if not parts.threads:
        found = account(start_ns, stop_ns, NOTHING_COUNTED, last)
        return found, not found.missing_ns
    found = account(start_ns, stop_ns, counted(parts), last)
    fits = not found.missing_ns and found.calls_fit
    if found.missing_ns < 0:
        found = unaccounted(found, stop_ns - start_ns)
    return found, fits


def _last_waits(
    newer: ThreadRecords | None, dumped: DumpedThread | None, epoch: int
) -> OpenWaits | None:
    """Return what the thread did and waited for when the epoch ended, None if that is not known.

    If its next event was in an epoch of which no record was made, or read, the
    one after that knows only of that event.
    """
    if newer is not None:
        oldest = newer.threads[0]
        first = oldest.account.first
        known = epoch_of(first) <= epoch
        return open_waits(first, bool(oldest.kernel_worker)) if known else None
    if dumped is not None and dumped.epoch <= epoch:
        return dumped.waits
    return None


def _with_throttling(waits: OpenWaits, snapshot: ThreadSnapshot) -> OpenWaits:
    """Return the same with how long what waits for a CPU was throttled meanwhile."""
    wait = waits.cpu
    if wait is None or wait.cpu is None or wait.cpu not in snapshot.slices:
        return waits
    cpu = snapshot.slices[wait.cpu]
    throttled_ns = waited(wait, cpu, snapshot.start_ns, snapshot.stop_ns).throttled_ns
    return replace(waits, thread_state=replace(waits.thread_state, throttled_ns=throttled_ns))


def _name(
    own: ThreadRecords | None, newer: ThreadRecords | None, dumped: DumpedThread | None
) -> ThreadName:
    """Return what the thread was called as near to the window as is known."""
    for records in (own, newer):
        if records is not None:
            return name_of(records.threads[-1])
    assert dumped is not None
    return dumped.name
