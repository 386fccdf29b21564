"""Follows the threads that measured threads wait for, and makes wait chains of what they did."""

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kernel_delay.analysis.chain_roots import Root, SlicesOf, StateSlice, roots
from kernel_delay.capture.chains._chain_records import lib
from kernel_delay.capture.chains.followed import Followed, threads_of
from kernel_delay.capture.chains.held_by import OF_DISKS, HeldBy, device_name
from kernel_delay.capture.chains.names import Names, name_in
from kernel_delay.capture.chains.parts import exact_parts
from kernel_delay.capture.chains.peers import LASTS_NS, Peers
from kernel_delay.capture.chains.places import Places
from kernel_delay.capture.chains.programs import ChainPrograms
from kernel_delay.capture.chains.siblings import MOST_HELD, Siblings
from kernel_delay.capture.chains.slices import Was
from kernel_delay.capture.chains.states import ThreadStates
from kernel_delay.capture.sleep_files import FileKey
from kernel_delay.capture.threads.collector import ThreadOf
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.syscalls import syscall_name
from kernel_delay.host.target import PROC, read_stat
from kernel_delay.loader._records import lib as session
from kernel_delay.model import (
    ChainPart,
    ChainThread,
    HeldProcess,
    SleepFile,
    Thread,
    WaitChain,
)

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

# Who was in no chain for so long is not followed any more.
UNUSED_NS = 10_000_000_000

# Who ended a wait that goes on behind its window is looked for in so much of the time behind it, if
# there are more events than are read soon. Those are of the next window.
BEHIND_NS = 200_000_000
MOST_LEFT = 4_000


class Follower:
    """The wait chains of measured processes, from construction to close()."""

    def __init__(
        self,
        programs: ChainPrograms,
        pids: Sequence[int],
        unix_sockets: UnixSockets,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Follow them by `programs`, and whom they wait for now.

        `notify` is called with what is not known of a process, and why.
        """
        self._places = Places()
        self._states: dict[int, ThreadStates] = {}
        self._followed = Followed(programs, pids)
        self._peers = Peers(self._followed.hops, unix_sockets, notify)
        self._names = Names()
        self._held_by = HeldBy()
        self._siblings = Siblings()
        # Processes that were asleep when they began to be followed.
        self._slept: set[int] = set()
        self._missed = 0
        self._looked_ns = 0
        # Whether many events are left for later.
        self._is_behind = False
        self._programs = programs
        self._unseen = list(pids)
        for pid in pids:
            self._held_by.begin(pid)
        self.look()

    def close(self) -> None:
        """Follow nobody any more."""
        self._programs.close()

    def follow_children(self, pids: Iterable[int]) -> None:
        """Follow processes that are measured from now on, from the next look on.

        Args:
            pids: All that are measured; who is followed already stays so.
        """
        for pid in pids:
            if self._followed.follow_child(pid):
                self._held_by.begin(pid)
                self._unseen.append(pid)

    def look(self, until_ns: int = 0) -> None:
        """Take the events that there are, and follow whoever is waited for by now.

        Args:
            until_ns: Of what is later much is left, by the clock of the windows. 0: now.
        """
        now_ns = session.monotonic_ns()
        if 0 < until_ns < now_ns:
            self._take_events(until_ns)
            self._is_behind = self._programs.left() > MOST_LEFT
            if self._is_behind:
                self._judge_waits()
                return
        self._is_behind = False
        self._take_events(now_ns)
        before_ns = self._looked_ns - LASTS_NS
        if any(
            each.state == "runnable" and each.lasts_since(before_ns)
            for each in self._states.values()
        ):
            # Who has its CPU now?
            self._programs.note_states()
        missed = self._programs.missed()
        if missed != self._missed:
            # The last event of a thread may be among the lost ones: what does each do now?
            self._missed = missed
            self._unseen = list(self._followed.hops)
        while True:
            if self._unseen:
                self._programs.note_states()
                self._take_events(session.monotonic_ns())
            for pid in self._unseen:
                self._look_at(pid)
            self._unseen = []
            self._judge_waits()
            if not self._unseen:
                break
        for states in self._states.values():
            if states.state in ("stopped", "frozen", "throttled"):
                self._held_by.look(states.process, states.state)
            # Most children end before it matters who has the other end.
            if self._followed.is_forked(states.process) and states.lasts_since(before_ns):
                self._note_place(states)
        self._siblings.look(self._ends(), self._looked_ns)

    def _judge_waits(self) -> None:
        """Look whom the threads wait for, and follow these from now on."""
        self._peers.judge_waits(self._states, self._looked_ns)
        for pid, hops in self._peers.waited_for():
            if self._followed.follow(pid, hops, self._looked_ns):
                self._held_by.begin(pid)
                self._unseen.append(pid)

    def _ends(self) -> set[int]:
        """Other processes with threads that sleep, since before the last look, for nobody known."""
        found = set()
        for states in self._states.values():
            pid = states.process
            # Of what was forked others are there often.
            if not self._followed.is_other(pid) or not states.sleeps_for_others:
                continue
            # Whoever slept when it began to be followed may have slept as long.
            if pid in self._slept or states.lasts_since(self._looked_ns - LASTS_NS):
                sleeps = states.goes_on(self._looked_ns)
                if any(
                    self._peers.ender(states, each, self._states).gap == "lasts" for each in sleeps
                ):
                    found.add(pid)
        self._slept.clear()
        return found

    @property
    def files(self) -> Mapping[FileKey, SleepFile]:
        """What threads were seen to sleep on since the last window, also what is closed by now."""
        return self._peers.files

    def states(self) -> Iterable[ThreadStates]:
        """Return what the threads did that are followed, or were."""
        return self._states.values()

    def chains(
        self, threads: Iterable[ThreadOf], start_ns: int, stop_ns: int
    ) -> Iterator[ThreadOf]:
        """Yield the threads, each with its process, with their chains within the window.

        What was before the end of the window is forgotten.
        """
        self.look(stop_ns + BEHIND_NS)
        # Most threads are in no chain.
        slices = cache(partial(self._slices, start_ns, stop_ns))
        for process, thread in threads:
            yield process, self._with_chain(thread, slices, start_ns, stop_ns)
        self.forget(stop_ns)

    def of_round(self, thread: Thread, start_ns: int, stop_ns: int) -> Thread:
        """Return the thread with its chain within a round that is over. Nothing is forgotten."""
        self.look(stop_ns + BEHIND_NS)
        self._names.renew()
        slices = cache(partial(self._slices, start_ns, stop_ns))
        return self._with_chain(thread, slices, start_ns, stop_ns)

    def _slices(self, start_ns: int, stop_ns: int, tid: int) -> list[StateSlice]:
        """What a thread did from then on, as far as it is known."""
        states = self._states.get(tid)
        if states is None:
            return []
        found = states.until(stop_ns)
        first = bisect_right(found, start_ns, key=_ended_ns)
        return self._peers.judged(states, found[first:], self._states)

    def _with_chain(self, thread: Thread, slices: SlicesOf, start_ns: int, stop_ns: int) -> Thread:
        blocked_ns = thread.time.blocked_ns if thread.time is not None else 0
        if not blocked_ns or thread.threads != 1:
            return thread
        found = roots(thread.tid, slices, start_ns, stop_ns)
        parts = exact_parts(self._parts(found), blocked_ns, cache(_has_ended))
        self._followed.use({each.pid for part in parts for each in part.threads}, stop_ns)
        held = tuple(self._held(parts, start_ns, stop_ns))
        is_bounded = self._followed.bounded_ns >= start_ns
        return replace(thread, chain=WaitChain(blocked_ns, parts, is_bounded, held))

    def forget(self, before_ns: int, unused_ns: int = UNUSED_NS) -> None:
        """Keep nothing that was over by then, and nobody who was in no chain for so long."""
        if not self._is_behind:
            # Who was forked by one that has ended is to be known as that.
            self._take_events(session.monotonic_ns())
        for states in self._states.values():
            states.drop(before_ns)
        if not self._is_behind:
            self._forget_ended(before_ns, unused_ns)
        self._held_by.forget()
        self._siblings.forget()
        self._names.forget()
        self._peers.forget_window(self._states)

    def _forget_ended(self, before_ns: int, unused_ns: int) -> None:
        """Keep no threads and processes that have ended, or were in no chain for so long.

        Of those there may be events to come, if not all are taken.
        """
        self._states = {
            tid: each
            for tid, each in self._states.items()
            if not each.is_over and (each.done or not each.lasts_since(before_ns) or _lives(each))
        }
        # What those that have ended did is kept as long as it may be of a chain.
        did = {each.process for each in self._states.values() if each.done}
        self._drop(self._followed.forget_unused(before_ns, unused_ns, did))

    def _held(
        self, parts: Sequence[ChainPart], start_ns: int, stop_ns: int
    ) -> Iterator[HeldProcess]:
        """Yield the processes that something held, by those at the ends of these parts."""
        ends = {part.threads[-1].pid for part in parts if part.gap == "lasts"} - {0}
        found = (
            each
            for pid in sorted(ends)
            for each in self._siblings.held(pid, start_ns, stop_ns, self._held_by.stopper)
        )
        return islice(found, MOST_HELD)

    def _drop(self, pids: set[int]) -> None:
        """Keep nothing of processes that are not followed any more."""
        if not pids:
            return
        for pid in pids:
            self._held_by.end(pid)
        self._states = {tid: each for tid, each in self._states.items() if each.process not in pids}
        self._peers.forget(pids)

    def _parts(self, found: Mapping[Root, int]) -> Counter[ChainPart]:
        """Return the parts of these roots: one names what had most of a state, another the rest."""
        parts: Counter[ChainPart] = Counter()
        named: set[ChainPart] = set()
        for root, ns in sorted(found.items(), key=itemgetter(1), reverse=True):
            threads = tuple(self._named(tid) for tid in root.tids)
            syscall = syscall_name(root.syscall) if root.syscall >= 0 else None
            part = ChainPart(
                threads,
                root.state,
                0,
                root.reason or "unknown",
                syscall=syscall,
                gap=root.gap,
                idle=root.is_idle,
            )
            # Of several that stopped it each is named.
            is_named = root.state == "stopped" or part not in named
            whole = self._with_object(part, root) if is_named else part
            if whole != part:
                named.add(part)
            parts[whole] += ns
        return parts

    def _with_object(self, part: ChainPart, root: Root) -> ChainPart:
        if root.device and root.reason in OF_DISKS:
            return replace(part, device=device_name(root.device))
        if not part.threads:
            return part
        pid = part.threads[-1].pid
        by = self._named(root.taker) if root.taker else None
        traced = root.state == "stopped" and self._held_by.is_traced(pid)
        if root.state == "stopped" and (by is None or traced):
            stopper = self._held_by.stopper(pid)
            by = self._names.with_process(stopper, self._states) if stopper else None
        by = by if by is not None and by.name else None
        cgroup = self._held_by.cgroup(pid, root.state)
        freezers = self._held_by.freezers(pid, root.state)
        return replace(part, by=by, cgroup=cgroup, traced=traced, freezers=freezers)

    def _named(self, tid: int) -> ChainThread:
        return self._names.named(tid, self._states)

    def _take_events(self, until_ns: int) -> None:
        for event in self._programs.events(until_ns):
            self._names.note_waker(event)
            if event.kind == lib.CHAIN_SIGNALLED:
                self._held_by.signalled(event.process, self._names.waker(event.waker))
                continue
            if event.kind == lib.CHAIN_FORKED:
                self._note_work(event)
                self._adopt(event)
            # Of who is not followed any more there may be some still.
            if event.process not in self._followed.hops:
                continue
            is_forked = self._followed.is_forked(event.process)
            if event.tid not in self._states:
                self._states[event.tid] = ThreadStates(event.tid, event.process, name_in(event))
                if is_forked:
                    self._followed.count_forked()
            states = self._states[event.tid]
            place = None
            stopper = 0
            if event.kind == lib.CHAIN_LEFT_CPU:
                states.rename(name_in(event))
                if event.state == session.STATE_STOPPED:
                    sender = self._held_by.stopper(event.process)
                    stopper = sender.tid if sender is not None else 0
            if event.kind == lib.CHAIN_LEFT_CPU and event.state == session.STATE_BLOCKED:
                place = self._places.of(event)
                if not is_forked:
                    self._peers.note_place(event.process, event.tid, place)
            elif event.kind == lib.CHAIN_WOKEN and self._peers.ended_wait(event):
                self._peers.note_peer(event.process, event.waker_process)
                self._note_work(event)
            states.note(event, place, stopper)
        self._looked_ns = until_ns

    def _note_work(self, event: "ChainEvent") -> None:
        """Note that the other thread of an event woke its thread, or forked it."""
        if event.waker in self._states:
            self._states[event.waker].woke(event.now_ns)

    def _adopt(self, event: "ChainEvent") -> None:
        """Note that a process is followed since it was forked, if it is to be."""
        pid, parent = event.process, event.waker_process
        if pid in self._followed.hops:
            # The number was another's.
            self._followed.drop((pid,))
            self._drop({pid})
        if self._followed.adopt(pid, event.tgid, parent, event.now_ns):
            self._held_by.begin_as(pid, parent)

    def _note_place(self, states: ThreadStates) -> None:
        """Note where a thread sleeps that was forked, if it does so for others."""
        if states.place is not None and states.sleeps_for_others:
            self._peers.note_place(states.process, states.tid, states.place)

    def _look_at(self, pid: int) -> None:
        """Note where the threads of a process sleep that was not followed until now."""
        for tid in threads_of(pid):
            states = self._states.get(tid)
            if states is not None and states.sleeps_somewhere:
                place = self._places.now(pid, tid)
                states.settle(place)
                self._slept.add(pid)
                self._peers.note_place(pid, tid, place)


def _ended_ns(was: Was) -> int:
    return was.until_ns


def _has_ended(pid: int) -> bool:
    """Whether it is gone, or nobody has waited for its end yet."""
    with suppress(OSError):
        return read_stat(pid).state in "ZX" and threads_of(pid) in ([], [pid])
    return True


def _lives(states: ThreadStates) -> bool:
    """Whether a thread is there; its end may have been missed."""
    return os.path.exists(f"{PROC}/{states.process}/task/{states.tid}")
