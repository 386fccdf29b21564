"""Looks where the threads of processes stand, without stopping them.

The kernel's records are read, then the memory of the programs, then the records again. A thread
that has not run in between had that stack all the time; another is looked at again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress

from msgspec import structs

from kernel_delay.capture.sleep_files import FileKey, find_files, with_states
from kernel_delay.errors import NoInputError
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import ProcessTarget
from kernel_delay.model import SleepFile, SleepReason
from kernel_delay.symbols import start_parsers
from kernel_delay.where import ThreadPosition, Where
from kernel_delay.where.process import Looked, Process
from kernel_delay.where.standing import EXITED, Standing, StandingThread


def deadlocks(threads: Iterable[ThreadPosition]) -> tuple[tuple[int, ...], ...]:
    """Return the circles of threads: each waits for a lock that the next one owns, or for its end.

    Of several owners any may give it back: such a lock is in no circle.
    """
    awaited = {
        thread.tid: holder.tid
        for thread in threads
        if (holder := thread.awaited_thread) is not None
    }
    order = {tid: at for at, tid in enumerate(awaited)}
    found: list[tuple[int, ...]] = []
    passed_from: dict[int, int] = {}
    for first in awaited:
        passed: list[int] = []
        tid = first
        while tid in awaited and tid not in passed_from:
            passed_from[tid] = first
            passed.append(tid)
            tid = awaited[tid]
        if passed_from.get(tid) == first:
            circle = passed[passed.index(tid) :]
            start = circle.index(min(circle, key=order.__getitem__))
            found.append((*circle[start:], *circle[:start]))
    return tuple(sorted(found, key=lambda circle: order[circle[0]]))


# How often a thread is looked at that ran meanwhile.
MOST_LOOKS = 5

MOVED = "the thread ran again each time its user stack was read"


def look(
    targets: Sequence[ProcessTarget],
    *,
    source: bool = False,
    on_attached: Callable[[], None] = lambda: None,
) -> Where:
    """Return where the threads of these processes stand.

    With `source` user stacks have inlined functions and source lines, where those are known.
    `on_attached` is called when the programs are loaded, and before anything of the processes is
    read. Processes that have exited are left out. Raises NoInputError where all have,
    PermissionDeniedError where one may not be looked at, and what Standing() raises.
    """
    start_parsers()
    with ExitStack() as stack:
        # Made while sockets may be.
        unix_sockets = UnixSockets(target.pid for target in targets)
        stack.callback(unix_sockets.close)
        standing = stack.enter_context(Standing([target.pid for target in targets]))
        on_attached()
        before = standing.threads()
        locked = {thread.process for thread in before if thread.blocks_readers}
        lookers = {}
        for target in targets:
            # Short-lived children exit at any time: the others are still there.
            with suppress(NoInputError):
                lookers[target.pid] = stack.enter_context(
                    Process(target, reads=target.pid not in locked, source=source)
                )
        found = _look_until_still(standing, lookers)
        files = _files(found, unix_sockets)
        processes = tuple(
            looker.position(found[pid], files) for pid, looker in lookers.items() if found[pid]
        )
    if not processes:
        raise NoInputError(EXITED)
    return Where(processes, deadlocks(each for process in processes for each in process.threads))


def _files(
    found: Mapping[int, Sequence[Looked]], unix_sockets: UnixSockets
) -> dict[FileKey, SleepFile]:
    """What all the descriptors are of that are waited for, and who has the other ends."""
    asked: dict[FileKey, tuple[int, SleepReason]] = {
        descriptor.key: (each.thread.tid, each.waited.reason)
        for looked in found.values()
        for each in looked
        for descriptor in each.waited.descriptors
        if descriptor.key is not None
    }
    return with_states(find_files(asked, unix_sockets, found), unix_sockets) if asked else {}


def _look_until_still(
    standing: Standing, lookers: Mapping[int, "Process"]
) -> dict[int, list[Looked]]:
    """The threads of each process; those that run again each time without a user stack."""
    found: dict[int, Looked] = {}
    looked: dict[int, Looked] = {}
    before = standing.threads()
    for _ in range(MOST_LOOKS):
        for pid, looker in lookers.items():
            looker.note([thread for thread in before if thread.process == pid])
        names = _own_names(before)
        looked = {
            thread.tid: lookers[thread.process].look(thread, names[thread.process])
            for thread in before
            if thread.tid not in found and thread.process in lookers
        }
        after = standing.threads()
        for thread in after:
            seen = looked.get(thread.tid)
            if seen is not None and thread.switches == seen.thread.switches:
                found[thread.tid] = seen
        before = after
        if all(thread.tid in found for thread in after):
            break
    processes: dict[int, list[Looked]] = defaultdict(list)
    names = _own_names(before)
    for thread in before:
        seen = found.get(thread.tid)
        if seen is None:
            python = looked[thread.tid].python if thread.tid in looked else None
            gil = None
            if not thread.on_cpu and thread.process in lookers:
                gil = lookers[thread.process].still_waits_for_gil(thread, names[thread.process])
            remark = None if thread.on_cpu else MOVED
            seen = Looked(thread, python=python, remark=remark, gil=gil)
        if seen.gil is not None:
            waited = lookers[thread.process].waited_for_gil(seen.gil)
            seen = structs.replace(seen, waited=waited)
        processes[thread.process].append(seen)
    return processes


def _own_names(threads: Iterable[StandingThread]) -> dict[int, dict[int, tuple[int, str]]]:
    names: dict[int, dict[int, tuple[int, str]]] = defaultdict(dict)
    for thread in threads:
        names[thread.process][thread.own_tid] = thread.tid, thread.comm
    return names
