"""Whose time is to be accounted for in a window, from which records, and up to what.

A thread's record of an epoch says what it stood at before its first event in
that epoch, which is what it stood at when the epochs before ended. For those
after its last event an iterator tells what it stands at now.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.accounting import NOTHING_COUNTED, Account, Standing, account, unaccounted
from kernel_delay.capture.counting import ThreadStanding, counted, epoch_of, standing
from kernel_delay.capture.epochs import EpochRecords, ThreadRecords
from kernel_delay.capture.thread_stats import ThreadName, name_of


class ThreadAccount(Struct, frozen=True):
    """A thread that was there in a window, its records of that, and where its time went.

    `fits`: all is accounted for, and nothing was written while it was read.
    """

    name: ThreadName
    parts: ThreadRecords
    account: Account
    fits: bool


def thread_accounts(
    epochs: Mapping[int, EpochRecords],
    epoch: int,
    start_ns: int,
    stop_ns: int,
    now: Mapping[int, ThreadStanding],
) -> list[ThreadAccount]:
    """Account for [start_ns, stop_ns), the epoch's window, of all threads that were there.

    `now` is what the threads stand at, told after `epochs` were read; where
    something was written in between, an account lacks what was not read.
    """
    own = epochs[epoch].threads if epoch in epochs else {}
    newer = _oldest_records_after(epochs, epoch)
    found = []
    for identity in dict.fromkeys([*own, *newer, *now]):
        records = own.get(identity)
        told = now.get(identity)
        last = _last_standing(newer.get(identity), told, epoch)
        name = _name(records, newer.get(identity), told)
        parts = records or ThreadRecords([], [], [], [])
        account, fits = _account(start_ns, stop_ns, parts, last)
        if account.time.absent_ns < stop_ns - start_ns:
            found.append(ThreadAccount(name, parts, account, fits))
    return found


def _account(
    start_ns: int, stop_ns: int, parts: ThreadRecords, last: Standing | None
) -> tuple[Account, bool]:
    if not parts.threads:
        found = account(start_ns, stop_ns, NOTHING_COUNTED, last)
        return found, not found.missing_ns
    read = counted(parts)
    found = account(start_ns, stop_ns, read, last)
    fits = not found.missing_ns and found.calls_fit and read == counted(parts)
    if found.missing_ns < 0:
        found = replace(found, time=unaccounted(start_ns, stop_ns))
    return found, fits


def _oldest_records_after(
    epochs: Mapping[int, EpochRecords], epoch: int
) -> dict[int, ThreadRecords]:
    """Return of each thread its records of the first epoch after `epoch` that it has any of."""
    found: dict[int, ThreadRecords] = {}
    for later in sorted(number for number in epochs if number > epoch):
        for identity, records in epochs[later].threads.items():
            found.setdefault(identity, records)
    return found


def _last_standing(
    newer: ThreadRecords | None, told: ThreadStanding | None, epoch: int
) -> Standing | None:
    """Return what the thread stood at when the epoch ended, None if that is not known.

    If its next event was in an epoch of which no record was made, or read, the
    one after that knows only of that event.
    """
    if newer is not None:
        first = newer.threads[0].account.first
        return standing(first) if epoch_of(first) <= epoch else None
    if told is not None and told.epoch <= epoch:
        return told.standing
    return None


def _name(
    own: ThreadRecords | None, newer: ThreadRecords | None, told: ThreadStanding | None
) -> ThreadName:
    """Return what the thread was called as near to the window as is known."""
    for records in (own, newer):
        if records is not None:
            return name_of(records.threads[-1])
    assert told is not None
    return told.name
