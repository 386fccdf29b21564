"""From the programs' records to what a Sample says of each thread."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kernel_delay.analysis import accounting
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads.accounts import ThreadAccount, thread_accounts
from kernel_delay.capture.threads.causes import with_causes
from kernel_delay.capture.threads.counting import (
    ThreadStanding,
    counted,
    open_waits,
    standings,
)
from kernel_delay.capture.threads.ended_threads import EndedThreads
from kernel_delay.capture.threads.epochs import EpochRecords, ThreadRecords
from kernel_delay.capture.threads.rings import RINGS, Ring, RingCopy
from kernel_delay.capture.threads.run_queues import CpuSlices, RunQueues
from kernel_delay.capture.threads.thread_stats import (
    accounted_stats,
    anything_counted,
    counted_stats,
    name_of,
)
from kernel_delay.capture.windows.control import wait_for_programs
from kernel_delay.loader._records import lib
from kernel_delay.model import Lost, Thread

# How often what does not fit together is read. It was being written just then,
# and twice is enough unless a program was held up.
READINGS = 5


class Collector:
    """Reads what the programs recorded, window after window."""

    def __init__(self, programs: Programs) -> None:
        """Read from these programs."""
        self._programs = programs
        control = programs.control
        self._ended = EndedThreads(programs)
        self._rings = tuple(
            Ring(index, programs.ring_memory(kind), control.rings[index], self._ended)
            for index, kind in enumerate(RINGS)
        )
        self._threads, self._syscalls, self._hard_irqs, self._holders = self._rings
        kept = programs.slices_per_cpu
        self._run_queues = RunQueues(programs.run_queues, programs.slices, kept)
        self._released = 0
        self._epochs: dict[int, EpochRecords] = {}
        self._owners: dict[int, tuple[EpochRecords, ThreadRecords]] = {}
        self._complete_ns = 0
        self._missed_events = programs.missed_events()
        self._missed_hits = 0
        self._unknown_ends = 0
        self._orphans = 0

    def make_room(self, epoch: int, start_ns: int, stop_ns: int) -> None:
        """Make room if records find little: `epoch` is the newest, and its window may be open.

        Threads that ended are summed up, unless an older epoch's records are
        kept. Records that were made since the newest was released are of no window.
        """
        if not self._ended.are_wanted():
            return
        if epoch == self._released:
            self._release_unread(epoch)
        elif epoch == self._released + 1:
            self._read_again()
            self._ended.sum_up(epoch, start_ns, stop_ns)

    def _release_unread(self, epoch: int) -> None:
        heads = [ring.head() for ring in self._rings]
        if self._programs.newest_epoch() != epoch:
            # A trigger has opened a window just now: some of these may be of that.
            return
        self._read_again()
        for ring, head in zip(self._rings, heads, strict=True):
            ring.pass_over(head)
        self._ended.forget()

    def _read_again(self) -> None:
        """Forget all that is read and not released: some of it may be summed up."""
        self._epochs.clear()
        self._owners.clear()
        for ring in self._rings:
            ring.read_again()
        self._complete_ns = 0

    def collect(self, epoch: int, start_ns: int, stop_ns: int) -> tuple[Thread, ...]:
        """Return the threads of the epoch's window [start_ns, stop_ns), which must be over.

        With accounting these are all that were there, otherwise those of
        which anything was counted. The epoch's records, and all older ones,
        are released. Where make_room() summed up some that ended, all are.
        """
        if self._ended:
            self._ended.finish(epoch, start_ns, stop_ns)
        names: dict[int, str] = {}
        if self._programs.accounting:
            threads = self._accounted(epoch, start_ns, stop_ns, names)
        else:
            self._read_after(stop_ns)
            threads = self._counted(epoch)
        ended = tuple(self._summed_up(stop_ns - start_ns, names))
        self._release(epoch)
        return threads + ended

    def _summed_up(self, window_ns: int, names: dict[int, str]) -> Iterator[Thread]:
        """Yield the threads that ended and were summed up, one for all of a name."""
        for several in self._ended.by_name(window_ns):
            parts, name = several.parts, name_of(several.parts.threads[0])
            if self._programs.accounting:
                of_all = accounting.account(0, several.threads * window_ns, counted(parts), None)
                thread = accounted_stats(name, parts, of_all, self._programs.sees_faults)
                thread = with_causes(thread, parts, None, {}, names, (0, 0))
            else:
                thread = counted_stats(name, parts)
            yield replace(thread, threads=several.threads)

    def _counted(self, epoch: int) -> tuple[Thread, ...]:
        records = self._epochs.get(epoch)
        parts = records.threads.values() if records else ()
        threads = [counted_stats(name_of(part.threads[-1]), part) for part in parts]
        return tuple(thread for thread in threads if anything_counted(thread))

    def _accounted(
        self, epoch: int, start_ns: int, stop_ns: int, names: dict[int, str]
    ) -> tuple[Thread, ...]:
        """Account for all threads that are not summed up, and add their names by their ids."""
        settled: dict[int, Thread] = {}
        unsettled: list[Thread] = []
        for reading in range(READINGS):
            # Copied in between, as to work on them takes so long that many threads change.
            now = self._standings()
            # After that, or the record of what is charged by then might not be read yet.
            if reading or not self._has_read_all_of(epoch, now):
                self._read()
            copies = [ring.copy() for ring in self._rings]
            slices = self._slices(now)
            after = self._standings()
            epochs = {**self._epochs, epoch: self._copied(epoch, copies)}
            accounts = thread_accounts(epochs, epoch, start_ns, stop_ns, now, settled)
            names.update((each.name.tid, each.name.name) for each in accounts)
            window = start_ns, stop_ns
            threads = [self._stats(each, names, slices, window) for each in accounts]
            unsettled = []
            for account, thread in zip(accounts, threads, strict=True):
                if account.settled(after, stop_ns):
                    settled[account.identity] = thread
                    self._unknown_ends += account.has_unknown_end(stop_ns)
                else:
                    unsettled.append(thread)
            if not unsettled:
                break
        return *settled.values(), *unsettled

    def _copied(self, epoch: int, copies: list[RingCopy]) -> EpochRecords:
        """Return the epoch's records in copies of the rings, which must outlive them."""
        records = self._epochs.get(epoch, EpochRecords({}, {}))
        thread, syscall, hard_irq, holder = copies
        threads = {
            identity: ThreadRecords(
                [thread.record(record.number) for record in parts.threads],
                [syscall.record(record.number) for record in parts.syscalls],
                [hard_irq.record(record.number) for record in parts.hard_irqs],
                [holder.record(record.number) for record in parts.holders],
            )
            for identity, parts in records.threads.items()
        }
        return EpochRecords(threads, records.oldest)

    def _standings(self) -> dict[int, ThreadStanding]:
        return standings(self._programs.standings())

    def _slices(self, now: dict[int, ThreadStanding]) -> dict[int, CpuSlices]:
        """Return the slices of the CPUs that threads wait for, or did when an epoch began."""
        waits = [told.waits for told in now.values()]
        for records in self._epochs.values():
            oldest = [parts.threads[0] for parts in records.threads.values()]
            waits += [
                open_waits(each.account.first, bool(each.kernel_worker))
                for each in oldest
                if each.account.first.wait_cpu
            ]
        cpus = (each.cpu.cpu for each in waits if each.cpu is not None)
        return self._run_queues.copy(cpu for cpu in cpus if cpu is not None)

    def _stats(
        self,
        each: ThreadAccount,
        names: dict[int, str],
        slices: dict[int, CpuSlices],
        window: tuple[int, int],
    ) -> Thread:
        sees_faults = self._programs.sees_faults
        thread = accounted_stats(each.name, each.parts, each.account, sees_faults)
        return with_causes(thread, each.parts, each.waits, slices, names, window)

    def discard(self, epoch: int, stop_ns: int) -> None:
        """Release the epoch's records, and all older ones, unread."""
        if self._ended:
            self._ended.finish(epoch, 0, stop_ns)
        self._read_after(stop_ns)
        self._release(epoch)

    def _has_read_all_of(self, epoch: int, now: Mapping[int, ThreadStanding]) -> bool:
        """Whether all is read that is charged to the epoch, and what threads did after it.

        An epoch goes on until the next one begins. To wait for programs takes milliseconds: of
        many windows that wait to be read, once is enough.
        """
        if self._programs.newest_epoch() == epoch:
            return False
        next_window = self._programs.control.windows[(epoch + 1) % lib.WINDOWS]
        return next_window.start_ns < self._complete_ns and all(
            told.epoch <= epoch
            or (told.epoch in self._epochs and identity in self._epochs[told.epoch].threads)
            for identity, told in now.items()
        )

    def _read_after(self, stop_ns: int) -> None:
        """Take in all that was recorded before `stop_ns`, which is past."""
        if stop_ns >= self._complete_ns:
            self._read()

    def _read(self) -> None:
        """Take in all that was recorded by now.

        A syscall's, an interrupt's and a holder's record is made after its
        thread's, so with the heads taken in that order the thread's is always
        read too.
        """
        complete_ns = int(lib.monotonic_ns())
        heads = [(ring, ring.head()) for ring in (self._holders, self._hard_irqs, self._syscalls)]
        thread_head = self._threads.head()
        wait_for_programs()
        self._complete_ns = complete_ns
        for record in self._threads.read_to(thread_head):
            epoch = self._epochs.setdefault(record.epoch, EpochRecords({}, {}))
            thread = epoch.threads.setdefault(record.identity, ThreadRecords([], [], [], []))
            thread.threads.append(record)
            epoch.oldest.setdefault(self._threads, record.number)
            self._owners[record.number] = epoch, thread
        for ring, head in heads:
            for record in ring.read_to(head):
                self._assign(record, ring)

    def _assign(self, record: Any, ring: Ring) -> None:
        """Give a syscall's, an interrupt's or a holder's record to its thread's."""
        if record.thread not in self._owners:
            # Released: user space was too slow to see a window's last events.
            self._orphans += 1
            return
        epoch, thread = self._owners[record.thread]
        self._parts(thread, ring).append(record)
        epoch.oldest.setdefault(ring, record.number)

    def _parts(self, thread: ThreadRecords, ring: Ring) -> list[Any]:
        if ring is self._syscalls:
            return thread.syscalls
        return thread.hard_irqs if ring is self._hard_irqs else thread.holders

    def _release(self, epoch: int) -> None:
        for older in [number for number in self._epochs if number <= epoch]:
            for thread in self._epochs.pop(older).threads.values():
                for record in thread.threads:
                    del self._owners[record.number]
        for ring in self._rings:
            kept = (records.oldest.get(ring) for records in self._epochs.values())
            ring.release(min(filter(None, kept), default=ring.next_number))
        self._ended.forget()
        self._released = epoch

    def lost(self) -> Lost:
        """Return what was lost since the last call.

        A missed event that shows by what a thread stands at, as the window is over, is
        counted there, and by the programs when an event comes that does not fit it.
        """
        missed_events = self._programs.missed_events()
        missed_hits = self._programs.missed_hits()
        # Holders that found no room are in the sums of the others.
        counted = (ring for ring in self._rings if ring is not self._holders)
        lost = Lost(
            map_entries=sum(ring.newly_full() for ring in counted) + self._orphans,
            missed_events=missed_events - self._missed_events + self._unknown_ends,
            missed_triggers=missed_hits - self._missed_hits,
        )
        self._missed_events, self._missed_hits = missed_events, missed_hits
        self._unknown_ends = self._orphans = 0
        return lost
