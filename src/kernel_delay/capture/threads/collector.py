"""From the programs' records to what a Sample says of each thread."""

import time
from collections.abc import Callable, Container, Iterator, Mapping

from msgspec.structs import replace

from kernel_delay.analysis import accounting
from kernel_delay.capture.threads import RecordSource, SleepStacks, WakerStack
from kernel_delay.capture.threads.accounts import (
    ThreadAccount,
    ThreadSnapshot,
    WholeSleep,
    changed_threads,
    thread_accounts,
)
from kernel_delay.capture.threads.causes import with_cpu_takers, with_lock_waits
from kernel_delay.capture.threads.counting import (
    DumpedThread,
    DumpedThreads,
    counted,
    open_waits,
    state_changes,
)
from kernel_delay.capture.threads.ended_threads import EndedThreads
from kernel_delay.capture.threads.epochs import ThreadRecords
from kernel_delay.capture.threads.reader import RecordReader
from kernel_delay.capture.threads.rings import RingMemory
from kernel_delay.capture.threads.run_queues import CpuSlices, RunQueues
from kernel_delay.capture.threads.sleeps import with_sleeps
from kernel_delay.capture.threads.thread_stats import (
    ThreadName,
    accounted_stats,
    anything_counted,
    counted_stats,
    name_of,
)
from kernel_delay.model import Lost, Thread

# How long to wait before each reading of what does not fit together. It was being written just
# then, and twice is enough unless a program is held up: where a hypervisor, or an emulator that has
# one thread for all CPUs, runs the CPU that it is on after this one.
PAUSES_S = (0.0, 0.0, 0.001, 0.01, 0.1)

Slices = Mapping[int, CpuSlices]
"""Those of CPUs that threads wait for, by the CPU."""

ThreadOf = tuple[int, Thread]
"""A thread, and the process that it is of as the tool numbers it."""

# That of threads that were summed up: they may be of any.
NO_PROCESS = 0


class _Names:
    """The names of threads by their ids in their own PID namespaces, which futexes hold."""

    def __init__(self) -> None:
        self._names: dict[int, dict[int, ThreadName]] = {}

    def add(self, name: ThreadName) -> None:
        self._names.setdefault(name.own_tid, {})[name.process] = name

    def find(self, own_tid: int, process: int) -> ThreadName | None:
        """Return the one of that process, or of another that shares memory with it.

        None where it is none, or several have that id, each in a namespace of its own.
        """
        found = self._names.get(own_tid, {})
        if process in found:
            return found[process]
        return next(iter(found.values())) if len(found) == 1 else None

    def are_the_tools(self) -> bool:
        """Return whether all have in the tool's namespace the same ids."""
        return all(
            name.tid == own_tid for own_tid, found in self._names.items() for name in found.values()
        )


class Collector:
    """Makes Threads of what the programs recorded, window after window."""

    def __init__(
        self,
        source: RecordSource,
        name_waker: Callable[[int], WakerStack] = lambda place: WakerStack(),
        *,
        keeps_accounts: bool = False,
    ) -> None:
        """Collect from these programs; `name_waker` names the stacks of wakers.

        `keeps_accounts`: take_accounts() will be called.
        """
        self._source = source
        self._keeps_accounts = keeps_accounts
        self._accounts: dict[int, ThreadAccount] = {}
        memory = RingMemory.of(source.ring_memory)
        self._ended = EndedThreads(source, memory)
        self._dumped = DumpedThreads()
        self._reader = RecordReader(source, memory, self._ended)
        self._sleep_stacks = SleepStacks(source.sleep_stacks, name_waker)
        self._run_queues = RunQueues(source.run_queues, source.slices, source.slices_per_cpu)
        self._released = 0
        self._missed = source.missed()
        self._missed_hits = 0
        self._clamped_lengths = 0
        self._unknown_ends = 0
        self._unfit = 0

    def make_room(self, epoch: int, start_ns: int, stop_ns: int) -> None:
        """Make room if records find little: `epoch` is the newest, and its window may be open.

        Threads that ended are summed up, unless an older epoch's records are
        kept. Records that were made since the newest was released are of no window.
        """
        if not self._ended.are_wanted():
            return
        if epoch == self._released:
            if self._reader.release_unread(epoch):
                self._ended.forget()
        elif epoch == self._released + 1:
            self._reader.read_again()
            self._ended.sum_up(epoch, start_ns, stop_ns)

    def collect(self, epoch: int, start_ns: int, stop_ns: int) -> tuple[Thread, ...]:
        """Return the threads of the epoch's window [start_ns, stop_ns), which must be over.

        With accounting these are all that were there, otherwise those of
        which anything was counted. The epoch's records, and all older ones,
        are released. Where make_room() summed up some that ended, all are.
        """
        return tuple(thread for _, thread in self.collect_each(epoch, start_ns, stop_ns))

    def collect_each(
        self, epoch: int, start_ns: int, stop_ns: int, states: bytes | None = None
    ) -> list[ThreadOf]:
        """Do the same, and say of each thread what process it is of.

        `states` are a struct dumped_thread of each, dumped since the window ended. None: they are
        dumped now. Threads that have changed since are dumped again.
        """
        if self._ended:
            self._ended.finish(epoch, start_ns, stop_ns)
        names = _Names()
        if self._source.accounting:
            threads = self._accounted(epoch, start_ns, stop_ns, names, states)
        else:
            self._reader.read_after(stop_ns)
            threads = self._counted(epoch)
        threads += ((NO_PROCESS, each) for each in self._summed_up(stop_ns - start_ns, names))
        self._release(epoch)
        return threads

    def discard(self, epoch: int, stop_ns: int) -> None:
        """Release the epoch's records, and all older ones, unread."""
        if self._ended:
            self._ended.finish(epoch, 0, stop_ns)
        self._reader.read_after(stop_ns)
        self._release(epoch)

    def _release(self, epoch: int) -> None:
        self._reader.release(epoch)
        self._ended.forget()
        self._released = epoch

    def _counted(self, epoch: int) -> list[ThreadOf]:
        parts = self._reader.epochs.threads(epoch).values()
        names = [name_of(part.threads[-1]) for part in parts]
        threads = [
            (name.process, counted_stats(name, part))
            for name, part in zip(names, parts, strict=True)
        ]
        return [(process, thread) for process, thread in threads if anything_counted(thread)]

    def _accounted(
        self, epoch: int, start_ns: int, stop_ns: int, names: _Names, states: bytes | None
    ) -> list[ThreadOf]:
        """Account for all threads that are not summed up, and add their names."""
        settled: dict[int, tuple[ThreadAccount, Slices]] = {}
        unsettled: dict[int, tuple[ThreadAccount, Slices]] = {}
        if states is None:
            states = self._source.thread_states()
        for reading, pause_s in enumerate(PAUSES_S):
            if pause_s:
                time.sleep(pause_s)
                states = self._source.thread_states()
            before = self._dumped.threads(states, settled)
            own = self._read(epoch, settled, before, is_first=not reading)
            newer = self._reader.epochs.next_after(epoch)
            slices = self._slices(before, newer)
            states = self._source.thread_states()
            after = state_changes(states)
            snapshot = ThreadSnapshot(epoch, start_ns, stop_ns, own, newer, slices, before, after)
            earlier, unsettled = unsettled, {}
            # Of thousands of threads half have changed by then, and are read again anyhow.
            changed = changed_threads(snapshot) if reading < len(PAUSES_S) - 1 else set[int]()
            may_settle = bool(changed)
            for account in thread_accounts(snapshot, settled.keys() | changed):
                names.add(account.name)
                if account.settled(after, stop_ns):
                    settled[account.identity] = account, slices
                    self._unknown_ends += account.has_unknown_end(stop_ns)
                    continue
                unsettled[account.identity] = account, slices
                last = earlier.get(account.identity)
                may_settle |= last is None or not account.is_as_before(last[0], stop_ns)
            if not may_settle:
                break
        for account, _ in unsettled.values():
            if account.is_being_written() or account.has_unknown_end(stop_ns):
                self._unknown_ends += 1
            elif not account.fits:
                self._unfit += 1
        # Threads are made of what was read, and not in between: that takes longer than to read.
        settled.update(unsettled)
        if self._keeps_accounts:
            self._accounts = {identity: account for identity, (account, _) in settled.items()}
        window = start_ns, stop_ns
        threads = []
        slept: dict[WholeSleep, Thread] = {}
        for identity in tuple(settled):
            # The records of each are let go as its Thread is made: they take as much memory.
            account, slices = settled.pop(identity)
            name, like = account.name, account.sleep and slept.get(account.sleep)
            if like:
                thread = replace(like, tid=name.tid, name=name.name)
            else:
                thread = self._thread(account, slices, window, names)
                if account.sleep:
                    slept[account.sleep] = thread
            threads.append((name.process, thread))
        return threads

    def _thread(
        self, each: ThreadAccount, slices: Slices, window: tuple[int, int], names: _Names
    ) -> Thread:
        thread = accounted_stats(each.name, each.parts, each.account, self._source.sees_faults)
        owner_of = self._owner_of(names, each.name.process)
        stacks, waits = self._sleep_stacks, each.waits
        thread = with_cpu_takers(thread, each.parts, waits, slices, window)
        thread = with_lock_waits(thread, each.parts, waits, owner_of, stacks, window)
        return with_sleeps(thread, each.parts, waits, stacks, window)

    def _owner_of(self, names: _Names, process: int) -> Callable[[int], ThreadName | None]:
        """Return what gives the owner of a futex of that process, by the id that is in there.

        Also one that was summed up: the id in the tool's namespace is 0 if that is another.
        """

        def owner_of(own_tid: int) -> ThreadName | None:
            known = names.find(own_tid, process)
            if known is not None:
                return known
            name = self._ended.name_of(own_tid)
            if name is None:
                return None
            return ThreadName(own_tid if names.are_the_tools() else 0, name)

        return owner_of

    def _read(
        self,
        epoch: int,
        settled: Container[int],
        before: Mapping[int, DumpedThread],
        *,
        is_first: bool,
    ) -> dict[int, ThreadRecords]:
        """Read of all threads but those `settled` what they did in the window.

        After they were dumped, or the record of what is charged by then might not be read yet.
        Copied, as to work on it takes so long that many threads change.
        """
        if not (is_first and self._reader.has_all_of(epoch, before)):
            self._reader.read()
        return {
            identity: records.copied()
            for identity, records in self._reader.epochs.threads(epoch).items()
            if identity not in settled
        }

    def _slices(
        self, now: Mapping[int, DumpedThread], newer: Mapping[int, ThreadRecords]
    ) -> Slices:
        """Return the slices of the CPUs that threads wait for now, or did when `newer` began."""
        waits = [dumped.waits.cpu for dumped in now.values()]
        for records in newer.values():
            oldest = records.threads[0]
            if oldest.account.first.wait_cpu:
                waits.append(open_waits(oldest.account.first, bool(oldest.kernel_worker)).cpu)
        return self._run_queues.copy(wait for wait in waits if wait is not None)

    def _summed_up(self, window_ns: int, names: _Names) -> Iterator[Thread]:
        """Yield the threads that ended and were summed up, one for all of a name."""
        for several in self._ended.by_name(window_ns):
            parts, name = several.parts, name_of(several.parts.threads[0])
            if self._source.accounting:
                of_all = accounting.account(0, several.threads * window_ns, counted(parts), None)
                thread = accounted_stats(name, parts, of_all, self._source.sees_faults)
                owner_of, stacks = self._owner_of(names, NO_PROCESS), self._sleep_stacks
                thread = with_cpu_takers(thread, parts, None, {}, (0, 0))
                thread = with_lock_waits(thread, parts, None, owner_of, stacks, (0, 0))
                thread = with_sleeps(thread, parts, None, stacks, (0, 0))
            else:
                thread = counted_stats(name, parts)
            yield replace(thread, threads=several.threads)

    def take_accounts(self) -> list[ThreadAccount]:
        """Return, once, what the threads of the last collect() were made of, with accounting.

        Those that were summed up are not among them.
        """
        accounts = list(self._accounts.values())
        self._accounts = {}
        return accounts

    def lost(self) -> Lost:
        """Return what was lost since the last call.

        A missed event that shows by a thread's state, as the window is over, is
        counted there, and by the programs when an event comes that does not fit it.
        So is an event whose program was held up for as long as was waited for it.
        """
        missed = self._source.missed()
        missed_hits = self._source.missed_hits()
        clamped_lengths = self._source.clamped_lengths()
        dropped_records = self._reader.newly_dropped()
        # A record that had no room may be why an account does not fit.
        unfit = 0 if dropped_records else self._unfit
        lost = (missed - self._missed) + Lost(
            dropped_records=dropped_records,
            missed_events=self._unknown_ends + unfit,
            missed_triggers=missed_hits - self._missed_hits,
            clamped_lengths=clamped_lengths - self._clamped_lengths,
        )
        self._missed, self._missed_hits = missed, missed_hits
        self._clamped_lengths = clamped_lengths
        self._unknown_ends = 0
        self._unfit = 0
        return lost
