"""Who is at the other end of what threads wait for: of files, polls, locks and FUSE."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING

from kernel_delay.analysis.chain_roots import MOST_HOPS, StateSlice
from kernel_delay.capture.chains.places import file_key
from kernel_delay.capture.chains.slices import (
    Ender,
    Place,
    Was,
    gap_of,
    is_accept,
    is_for_any_child,
    is_interrupted,
    is_of_own,
    slice_of,
)
from kernel_delay.capture.chains.states import RESUMES_NS, ThreadStates
from kernel_delay.capture.sleep_files import FileKey, find_files
from kernel_delay.host.file_locks import lock_owner
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import End, holders, watched_now
from kernel_delay.host.open_files.fuse import fuse_server
from kernel_delay.host.open_files.tcp_info import turn
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.process_memory import Patience
from kernel_delay.host.target import PROC, children_of
from kernel_delay.loader._records import lib as session
from kernel_delay.model import RECEIVE_REASONS, SleepFile, SleepReason

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

# Places of which it is remembered that they were looked at.
MOST_PLACES = 4096

# Addresses at which servers are looked for.
MOST_LISTENERS = 4

# One thread of a process is named that had a CPU, or wanted one, for so much of a wait, and for so
# much of what all of its threads had.
RAN_SHARE = 0.5
SURE_SHARE = 0.9

# Polls that are looked at at a time.
MOST_POLLS = 16

# What began before the last look lasts.
LASTS_NS = 40_000_000


class Peers:
    """The processes that others wait for, as far as it is known."""

    def __init__(
        self,
        hops: Mapping[int, int],
        unix_sockets: UnixSockets,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        """None is known yet.

        Args:
            hops: the processes that are followed, and how many hops away: the follower's own.
            unix_sockets: who has the other ends of sockets.
            notify: called with what is not known of a process, and why.
        """
        self._hops = hops
        self._unix_sockets = unix_sockets
        self._notify = notify
        # Of each process, how long reads of its memory are waited for.
        self._memories: dict[int, Patience] = {}
        self._peers: dict[FileKey, tuple[int, ...]] = {}
        self.files: dict[FileKey, SleepFile] = {}
        self._asked: dict[FileKey, tuple[int, SleepReason]] = {}
        self._awaited: dict[int, int] = {}
        # Of FUSE file systems, by their devices; a window long.
        self._servers: dict[int, int | None] = {}
        # Processes with peers that they had on any file.
        self._known: set[tuple[int, int]] = set()
        # Those whose connections they accepted: servers with clients.
        self._clients: set[tuple[int, int]] = set()
        self._asking: set[int] = set()  # processes that connected to a server, on any machine
        # Threads that poll: whether they waited for clients to connect alone, at the last look.
        self._accepts: dict[int, bool] = {}
        # Who listens at addresses whose connections were over before their servers were found.
        self._listeners: dict[str, tuple[int, ...]] = {}
        self._judged_once: set[tuple[int, Place]] = set()  # places that were looked at
        self._own_polls: set[tuple[int, Place]] = set()  # those of files of the process alone

    def forget_window(self, states: Mapping[int, ThreadStates]) -> None:
        """Forget threads without states, and who was not to be found: may be by the next window."""
        self._accepts = {tid: each for tid, each in self._accepts.items() if tid in states}
        self._peers = {key: pids for key, pids in self._peers.items() if pids}
        # What lasts was not asked for again.
        self.files = {key: each for key, each in self.files.items() if key in self._peers}
        self._servers.clear()
        self._listeners.clear()
        for memory in self._memories.values():
            memory.renew()

    def forget(self, unused: set[int]) -> None:
        """Forget processes that are not followed any more."""
        self._peers = {key: pids for key, pids in self._peers.items() if key.process not in unused}
        self._known = {pair for pair in self._known if unused.isdisjoint(pair)}
        self._clients = {pair for pair in self._clients if unused.isdisjoint(pair)}
        self._asking -= unused
        for pid in unused:
            self._memories.pop(pid, None)

    def ended_wait(self, event: "ChainEvent") -> bool:
        """Whether the waker is the one, and not a context that it happened to be in.

        What is sent by loopback arrives in the sender's own context.
        """
        if event.waker_kind == session.WAKER_SOFT_IRQ:
            return (event.process, event.waker_process) in self._known
        return event.waker_kind == session.WAKER_THREAD

    def waited_for(self) -> list[tuple[int, int]]:
        """The processes that threads were seen to wait for since, and how many hops away."""
        asked, self._asked = self._asked, {}
        files = find_files(asked, self._unix_sockets, self._likely()) if asked else {}
        self._keep(files)
        for key, file in files.items():
            self._look_for_listener(key, file)
        for key in asked:
            self._peers[key] = _peers(files.get(key))
            for pid in self._peers[key]:
                self.note_peer(key.process, pid)
                self._known.add((key.process, pid))
        found, self._awaited = self._awaited, {}
        return sorted(found.items(), key=itemgetter(1))

    def _likely(self) -> Iterator[int]:
        """Yield the processes that may have the other ends, to be looked at first."""
        yield from self._hops
        for pids in self._listeners.values():
            for pid in pids:
                yield pid
                yield from children_of(pid)

    def _look_for_listener(self, key: FileKey, file: SleepFile) -> None:
        """Look for the server of a short connection: whoever listens may serve the next one too."""
        address = file.peer_address
        if not file.is_client or file.peers or file.kind != "tcp" or address is None:
            return
        if address not in self._listeners and len(self._listeners) < MOST_LISTENERS:
            # Few connections are over so soon.
            from kernel_delay.host.open_files.inet import InetSockets

            inode = InetSockets(PROC / str(key.process)).listener(address)
            end = End(f"socket:[{inode}]", inode)
            found = holders({end: ()}).of[end] if inode else []
            self._listeners[address] = tuple(peer.pid for peer in found)
        if len(pids := self._listeners.get(address, ())) == 1:
            self.note_peer(key.process, pids[0])
            self._known.add((key.process, pids[0]))

    def judge_waits(self, states: Mapping[int, ThreadStates], looked_ns: int) -> None:
        """Look at what threads poll, and who has or serves a file, if that is new, or lasts."""
        watched: dict[int, list[FileKey]] = {}
        for tid, each in states.items():
            place = each.unjudged
            if place is None or len(watched) >= MOST_POLLS:
                continue
            poll = (each.process, place)
            if poll in self._judged_once and not each.lasts_since(looked_ns - LASTS_NS):
                continue
            if len(self._judged_once) >= MOST_PLACES:
                self._judged_once.clear()
                self._own_polls.clear()
            self._judged_once.add(poll)
            each.judge(0)
            if place.reason == "file_lock":
                self._judge_file_lock(each)
            elif place.reason == "fuse":
                self._judge_fuse(each, place)
            elif place.reason == "child":
                self._judge_child(each, place)
            else:
                watched[tid] = self._watched(each.process, tid)
        keys: dict[FileKey, tuple[int, SleepReason]] = {
            key: (tid, "poll") for tid, each in watched.items() for key in each
        }
        files = find_files(keys, self._unix_sockets, self._hops) if keys else {}
        self._keep(files)
        for tid, own in watched.items():
            polling = states[tid]
            peers = [_peers(files.get(key)) for key in own]
            others = {pid for each_of in peers for pid in each_of if pid != polling.process}
            self._known.update((polling.process, pid) for pid in others)
            found = [files[key] for key in own if key in files]
            self._accepts[tid] = bool(own) and len(found) == len(own) and all(map(_accepts, found))
            if polling.place is not None and own and all(peers) and not others:
                self._own_polls.add((polling.process, polling.place))
            pid = others.pop() if len(others) == 1 and all(peers) else self._asked_server(found)
            if pid:
                polling.judge(pid)
                self.note_peer(polling.process, pid)

    def _watched(self, pid: int, tid: int) -> list[FileKey]:
        """What a thread polls now."""
        if pid not in self._memories:
            self._memories[pid] = Patience(
                lambda why: self._notify(
                    f"what process {pid} polls is not known, as its memory is not read: {why}"
                )
            )
        found = []
        for fd in watched_now(pid, tid, self._memories[pid]):
            with suppress(OSError):
                inode = file_status(f"{PROC}/{pid}/fd/{fd}").inode & 0xFFFFFFFF
                found.append(FileKey(pid, fd, inode, writes=False))
        return found

    def _keep(self, files: Mapping[FileKey, SleepFile]) -> None:
        """Keep whose clients processes are, and what files of measured ones are.

        Their connections may be over soon.
        """
        for key, each in files.items():
            if each.is_client:
                self._clients.update((pid, key.process) for pid in _peers(each))
            elif each.is_server:
                # A client that is stopped is not seen to wait for it.
                self._clients.update((key.process, pid) for pid in _peers(each))
        self._asking.update(key.process for key, each in files.items() if each.is_client)
        if len(self.files) < MOST_PLACES:
            self.files |= {
                key: each for key, each in files.items() if self._hops.get(key.process) == 0
            }

    def _asked_server(self, files: Sequence[SleepFile]) -> int:
        """The one process that a server asked for its client; 0: not known.

        The server received from a client and sent nothing since. It sent to the other, and received
        nothing since.
        """
        ask = self._unix_sockets.ask
        owes, asked = False, set[tuple[int, ...]]()
        for file in files:
            if file.peer_address is None or not file.is_client:
                turns = file.kind == "tcp" and file.peer_address is not None
                owes = owes or (turns and turn(ask, file) == "own")
            elif file.kind != "tcp":
                # Whose turn it is on a Unix socket is not known.
                return 0
            elif turn(ask, file) == "other":
                asked.add(_peers(file))
        (pids,) = asked if owes and len(asked) == 1 else ((),)
        return pids[0] if len(pids) == 1 else 0

    def _judge_file_lock(self, states: ThreadStates) -> None:
        owner = lock_owner(states.process)
        if owner is not None and not owner.shared:
            states.judge(owner.pid)
            self.note_peer(states.process, owner.pid)

    def _judge_child(self, states: ThreadStates, place: Place) -> None:
        """The child that is asked for, by wait4(2), or the only one."""
        children = children_of(states.process)
        asked = [pid for pid in children if pid == place.fd] or children
        if len(asked) == 1:
            states.judge(asked[0])
            self.note_peer(states.process, asked[0])

    def _judge_fuse(self, states: ThreadStates, place: Place) -> None:
        # The first argument of other calls is a path, or a folder whose path may lead elsewhere.
        if file_key(states.process, place) is None:
            return
        if place.device not in self._servers:
            self._servers[place.device] = fuse_server(place.device, self._hops)
        server = self._servers[place.device]
        if server is not None:
            states.judge(server)
            self.note_peer(states.process, server)

    def note_peer(self, process: int, peer: int) -> None:
        """Note that a thread of `process` waits for the process `peer`."""
        if peer not in self._hops:
            hops = self._hops.get(process, MOST_HOPS) + 1
            self._awaited[peer] = min(hops, self._awaited.get(peer, hops))

    def note_place(self, process: int, tid: int, place: Place) -> None:
        """Note where a thread sleeps: whose its file is will be asked, if it is not known."""
        key = file_key(process, place)
        if key is not None and key not in self._peers:
            self._asked.setdefault(key, (tid, place.reason))

    def judged(
        self, states: ThreadStates, found: Sequence[Was], all_states: Mapping[int, ThreadStates]
    ) -> list[StateSlice]:
        """Return the slices with those that were waited for.

        A wait that is called again at once, after a signal, a time-out or one of several children,
        is for whoever ends it at last; unless the thread woke somebody in between, or forked. A
        poll of nobody else's files is for the child whose end makes the thread do something else.
        """
        slices = []
        place, last, last_ns, ran_ns, woke = None, Ender(), 0, 0, False
        for was in reversed(found):
            own = self.ender(states, was, all_states)
            ended_ns = 0 if was.lasts else was.until_ns
            by_client = own.is_known and self._is_client(own.process, states.process)
            if was.state == "blocked":
                is_same = was.place == place and ran_ns <= RESUMES_NS and not woke
                goes_on = is_interrupted(was) and not own.is_known and last.is_known
                if is_same and (goes_on or is_for_any_child(was.place)):
                    own, ended_ns = last, last_ns
                elif (
                    was.by_child and not is_same and (states.process, was.place) in self._own_polls
                ):
                    own = Ender(was.waker, process=was.waker_process)
                place, last, last_ns, ran_ns, woke = was.place, own, ended_ns, 0, False
            elif was.state == "running":
                ran_ns += was.until_ns - was.since_ns
                woke = woke or was.woke
            receives = was.place is not None and was.place.reason in RECEIVE_REASONS
            is_idle = receives and self._is_client(own.process, states.process)
            # One that asks a server itself may owe an answer to another client.
            is_idle = is_idle and states.process not in self._asking
            slices.append(slice_of(was, own, ended_ns, by_client=by_client, is_idle=is_idle))
        return slices[::-1]

    def _is_client(self, pid: int, server: int) -> bool:
        """Whether a process asks another one, which does not ask it."""
        return (server, pid) in self._clients and (pid, server) not in self._clients

    def ender(
        self, states: ThreadStates, was: Was, all_states: Mapping[int, ThreadStates]
    ) -> Ender:
        """Who ended a sleep, or surely will, or had the CPU."""
        if was.state != "blocked":
            return Ender(was.waker if was.state in ("runnable", "stopped") else 0)
        if was.waker_kind == "thread":
            return Ender(was.waker, process=was.waker_process)
        key = file_key(states.process, was.place) if was.place is not None else None
        peers = self._peers.get(key, ()) if key is not None else ()
        if was.awaited:
            peers = (was.awaited,)
        if was.waker_kind == "soft_irq" and (states.process, was.waker_process) in self._known:
            # What is sent by loopback arrives in the sender's own context. The connection may have
            # been too short to be seen, but for others between the two.
            return Ender(was.waker, process=was.waker_process)
        if len(peers) != 1:
            return Ender(gap=gap_of(was))
        return self._of_process(states, was, peers[0], all_states)

    def _of_process(
        self, states: ThreadStates, was: Was, peer: int, all_states: Mapping[int, ThreadStates]
    ) -> Ender:
        """Who of the one process at the other end ends a sleep, or did not."""
        threads = [each for each in all_states.values() if each.process == peer]
        is_other = peer in (each.tid for each in threads) and peer != states.process
        if was.waker_kind == "hard_irq":
            return Ender(peer if is_other else 0, "interrupt", peer)
        # Who waits for the sleeper itself does not end its sleep.
        others = [each for each in threads if each.awaited != states.process]
        if len(threads) > 1 and len(working := [*self._working(others, was)]) == 1:
            threads = working
        if len(threads) == 1:
            return Ender(threads[0].tid, process=peer)
        if not is_other:
            gap = gap_of(was)
            if gap == "lasts" and not threads:
                is_last = self._hops.get(states.process, 0) >= MOST_HOPS
                gap = "hops" if is_last else "not_followed"
            return Ender(gap=gap, process=peer)
        ran = Counter({each.tid: each.ran_ns(was.since_ns, was.until_ns) for each in threads})
        ((most, ran_ns),) = ran.most_common(1)
        least_ns = max(RAN_SHARE * (was.until_ns - was.since_ns), SURE_SHARE * ran.total())
        return Ender(most, "ran", peer) if ran_ns >= least_ns else Ender(peer, "threads", peer)

    def _working(self, threads: Sequence[ThreadStates], was: Was) -> Iterator[ThreadStates]:
        """Yield the threads of a process that may have worked for a client in a sleep of that.

        Whoever waits for clients to connect does not, nor does who waits for its own process.
        """
        for each in threads:
            accepts = self._accepts.get(each.tid) or each.ended_at(is_accept, was.until_ns)
            if not accepts and not each.slept_at(is_of_own, was.since_ns, was.until_ns):
                yield each


def _peers(file: SleepFile | None) -> tuple[int, ...]:
    """The processes that have the other end; one of more than are known is nobody."""
    peers = file.peers if file is not None and not file.more_peers else ()
    return tuple(peer.pid for peer in peers)


def _accepts(file: SleepFile) -> bool:
    """Whether it listens."""
    return file.kind in ("tcp", "unix") and file.peer_address is None and not file.peers
