"""What file a thread waited for, and who has its other end: in words, with advice."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.analysis.verdict.formatting import share
from kernel_delay.analysis.verdict.stopped_or_frozen import resume, thaw
from kernel_delay.analysis.verdict.wakers import main_waker
from kernel_delay.host.kernel_names import WRITES
from kernel_delay.model import (
    RECEIVE_REASONS,
    FileKind,
    FilePeer,
    Sample,
    Sleep,
    SleepFile,
    SleepReason,
    Thread,
    Who,
)

RESUME_OUTPUT = "If Ctrl-S stopped the terminal, Ctrl-Q resumes it. Else nobody reads it in time."

NO_DELAY = "Set TCP_NODELAY where that is sent, or send each message with one call."

# For so long an acknowledgement is delayed at most: TCP_DELACK_MAX, include/net/tcp.h (5.14, 6.18)
LONGEST_DELAY_NS = 200_000_000

# So much later than the window's end files are looked at, at most, but for very slow machines.
LOOKED_AT_NS = 1_000_000_000

# A file is the one that a thread waited on if it did so for that part of the sleep.
SURE_SHARE = 0.9

# From that part on it is named beside.
FILE_SHARE = 0.5

# A sentence has no room for more of a path: its end says which it is.
PATH_WIDTH = 60

_NAMES: dict[FileKind, str] = {
    "pipe": "pipe",
    "unix": "Unix socket",
    "tcp": "TCP connection",
    "udp": "UDP socket",
    # No other device has another end.
    "device": "pseudo-terminal",
    "eventfd": "eventfd",
}

# What a thread waits for there is in the file itself.
_OF_STORAGE: frozenset[SleepReason] = frozenset(
    ("disk", "page_cache", "network_filesystem", "file_lock", "fuse", "frozen_filesystem")
)


class MainFile(Struct, frozen=True):
    """The file, or files with the same other end, on which most of some waits were.

    Attributes:
        file: The one that was waited on longest.
        ns: How long those were waited on, in ns.
        slept_ns: How long all waits were, in ns.
        writes: They were to write.
        client_ns: How long waits were for answers from the address of its other end, in ns, also on
            connections that were over by then: who had their other ends is not known.
        waits: How many waits on those files were looked at.
    """

    file: SleepFile
    ns: int
    slept_ns: int
    writes: bool
    client_ns: int = 0
    waits: int = 0

    @property
    def is_sure(self) -> bool:
        """Whether nearly all waits were on it."""
        return self.ns >= SURE_SHARE * self.slept_ns

    @property
    def is_held(self) -> bool:
        """Whether the only process that has its other end was stopped or frozen.

        A client that is need not have anything to ask.
        """
        return self.peer is not None and self.peer.is_held and _may_owe(self.file, self.writes)

    @property
    def _is_one_of(self) -> bool:
        """Whether there is no room in a first sentence for all that have the other end."""
        return bool(self.file.peers) and self.peer is None

    @property
    def peer(self) -> FilePeer | None:
        """The process that has its other end; None if none is known, or there may be others."""
        peers = self.file.peers
        return peers[0] if len(peers) == 1 and not self.file.more_peers else None

    def phrase(self, sample: Sample, reason: SleepReason) -> str | None:
        """What the thread waited for; None if no more is known of it than why it slept."""
        return self._object(sample, reason) if self.is_sure and not self._is_one_of else None

    def details(self, sample: Sample, reason: SleepReason) -> Iterator[str]:
        """What else is known, as sentences."""
        text = self._object(sample, reason)
        if text is not None and not self.is_sure:
            yield f"For {share(self.ns, self.slept_ns)} of that time it waited for {text}."
        elif text is not None and self._is_one_of:
            yield f"It waited for {text}."
        if reason in _OF_STORAGE and self.file.kind in ("file", "device"):
            path = path_text(self.file.name)
            yield f"The file is {path}." if self.is_sure else f"Most of it was on {path}."
        if self.peer is not None and self.peer.stopped:
            yield f"{_named(self.peer)} was stopped at the end, by a signal."
        if self.peer is not None and self.peer.freezers:
            yield f"{_named(self.peer)} was frozen at the end, by its cgroup's freezer."
        is_other = self.peer is not None and self.peer.pid != sample.target.pid
        if self.peer is not None and is_other and self.peer.asleep and reason in RECEIVE_REASONS:
            slept = "slept at the end, in polls, futexes or accept"
            yield f"All threads of {_named(self.peer)} {slept}: it had nothing to send, or waited."
        yield from self.holding_back(sample)

    def holding_back(self, sample: Sample) -> Iterator[str]:
        """What the kernel held back at the end, as sentences."""
        if self.held_back:
            other = self._other_end(sample) or "the other end"
            to_it = other, "the process that waits"
            sender, receiver = ("it", other) if self.file.held_back else to_it
            count = "1 byte" if self.held_back == 1 else f"{self.held_back:,} bytes"
            yield f"The kernel held back {count} that {sender} sent (Nagle)."
            yield f"That lasts until {receiver} acknowledges earlier ones, which can take 40 ms."

    @property
    def held_back(self) -> int:
        """How many bytes the kernel held back, that the thread waited for in the end."""
        return 0 if self.writes else self.file.held_back or self.file.peer_held_back

    @property
    def is_of_nagle(self) -> bool:
        """Whether what is held back can make up most waits: a slower server is no matter of it."""
        return self.held_back > 0 and self.ns <= LONGEST_DELAY_NS * self.waits

    def evidence(self) -> dict[str, int]:
        """What it adds to a finding's."""
        held_back = {"held_back": self.held_back} if self.held_back else {}
        return held_back | ({"peer_pid": self.peer.pid} if self.peer is not None else {})

    def requests(self, sample: Sample, thread: Thread, waits: int) -> str | None:
        """Say that the thread sent about one request for each wait for an answer, if it did."""
        if not self.file.is_client or self.writes or self.client_ns < SURE_SHARE * self.slept_ns:
            return None
        # It may write elsewhere what it gets here, or another of its threads may have what comes.
        if self._was_idle(sample) or 2 * _own_ns(sample, thread) > self.slept_ns:
            return None
        sent = max(
            (call for call in thread.syscalls if call.name in WRITES),
            key=lambda call: call.count,
            default=None,
        )
        if sent is None or 2 * sent.count < waits:
            return None
        often = "once" if sent.count == 1 else f"{sent.count:,} times"
        return f"It is the client, and called {sent.name} {often}."

    def _was_idle(self, sample: Sample) -> bool:
        """Whether nothing was sent on the connection in the window, for all that is known."""
        sent_ns = self.file.last_sent_ns
        return sent_ns is not None and sent_ns > sample.window.duration_ns + LOOKED_AT_NS

    def blamed(self, sample: Sample, who: Who, advice: str | None) -> tuple[Who, str | None]:
        """Who causes the wait, and what helps."""
        if self.file.is_client and who == "program":
            # A poll of one connection is no choice among several.
            who = "other-process"
        peer = self.peer
        may_owe = _may_owe(self.file, self.writes)
        if peer is not None and peer.pid != sample.target.pid and may_owe:
            if peer.stopped:
                # Its terminal may have stopped it.
                return "person", resume(peer.pid, is_sent=False)
            if peer.freezers:
                return "person", thaw(peer.freezers)
        if self.file.kind == "device" and self.writes:
            return who, RESUME_OUTPUT
        return ("program", NO_DELAY) if self.is_of_nagle else (who, advice)

    def _object(self, sample: Sample, reason: SleepReason) -> str | None:
        name, other = _NAMES.get(self.file.kind), self._other_end(sample)
        if reason == "semaphore" and other is not None:
            # Nothing else of that reason has a file.
            wanted = "room" if self.writes else "a message"
            if not self.file.more_peers and self._is_own(sample):
                return f"{wanted} in a POSIX queue of its own process"
            return f"{wanted} in the POSIX queue shared with {other}"
        if name is None or other is None:
            return None
        if reason in ("poll", "epoll"):
            is_socket = self.file.kind not in ("pipe", "device")
            return f"events on the {name} {'to' if is_socket else 'with'} {other}"
        if reason == "socket_send" or (reason == "pipe" and self.writes):
            return f"room in the {name} to {other}"
        if reason == "pipe":
            return f"the pipe from {other}"
        if reason == "eventfd":
            return f"the eventfd shared with {other}"
        if reason == "terminal" and self.writes:
            return f"the {name} to {other}"
        if reason in ("socket_receive", "terminal"):
            return f"data on the {name} from {other}"
        return f"{other} to accept its connection" if reason == "socket_connect" else None

    def _is_own(self, sample: Sample) -> bool:
        """Whether its own process has the other end, as far as is known, and no other."""
        return all(peer.pid == sample.target.pid for peer in self.file.peers)

    def _other_end(self, sample: Sample) -> str | None:
        peers = self.file.peers
        if not peers:
            return self.file.peer_address
        if self._is_own(sample):
            return "its own process"
        others = [peer for peer in peers if peer.pid != sample.target.pid]
        first = _named(others[0])
        if others[1:]:
            return f"{first} or {len(peers) - 1} other process{'es' if peers[2:] else ''}"
        if self.file.more_peers:
            return f"{first} or others"
        return f"{first} or its own process" if peers[1:] else first


def _own_ns(sample: Sample, thread: Thread) -> int:
    """How long the thread slept until other threads of its process woke it."""
    wakers = (waker for sleep in thread.sleeps for waker in sleep.wakers)
    return sum(waker.ns for waker in wakers if waker.tid and waker.pid == sample.target.pid)


def path_text(path: str) -> str:
    """Return as much of a path as a sentence has room for."""
    return path if len(path) <= PATH_WIDTH else f"…{path[1 - PATH_WIDTH :]}"


def asked_for(slept: Sequence[Sleep]) -> Iterator[str]:
    """Say in which function of the kernel its lock was asked for in most of the waits."""
    # Few threads wait for one.
    from kernel_delay.analysis.sleep_reasons import lock_taker

    ns_of: Counter[tuple[str, str | None]] = Counter()
    for sleep in slept:
        if (taker := lock_taker(sleep.stack)) is not None:
            ns_of[taker] += sleep.ns
    for (function, lock), ns in ns_of.most_common(1):
        asked = f"asked for in the kernel's {function}"
        part = share(ns, sum(sleep.ns for sleep in slept))
        yield f"For {part} of that time it was {f'{lock}, {asked}' if lock else asked}."


def _named(peer: FilePeer) -> str:
    return f"{peer.comm} ({peer.pid})"


def is_kept_by_peer(sleep: Sleep) -> bool:
    """Whether it waited for a server, or for a process that is stopped or frozen."""
    if sleep.file is None:
        return False
    may_owe = _may_owe(sleep.file, sleep.syscall in WRITES)
    return sleep.file.is_client or (may_owe and any(peer.is_held for peer in sleep.file.peers))


def _may_owe(file: SleepFile, writes: bool) -> bool:
    """Whether the other end is not a client's, of which a server waits for the next request."""
    return writes or not file.is_server


def main_file(slept: Sequence[Sleep]) -> MainFile | None:
    """Return the file on which most of the waits were; None if it is not known, or none is.

    Several with the same processes at their other ends, as connections to one server, are one.
    """
    sleeps_of: dict[tuple[object, ...], list[Sleep]] = {}
    as_client: dict[str | None, int] = {}
    for sleep in slept:
        if sleep.file is None or sleep.file.kind == "unknown":
            continue
        file, writes = sleep.file, sleep.syscall in WRITES
        whose = file.peers or file.peer_address or (file.name, file.inode)
        key = file.kind, writes, whose
        sleeps_of.setdefault(key, []).append(sleep)
        if file.is_client and not writes:
            as_client[file.peer_address] = as_client.get(file.peer_address, 0) + sleep.ns
    slept_ns = sum(sleep.ns for sleep in slept)
    ns, most = max(
        ((sum(sleep.ns for sleep in each), each) for each in sleeps_of.values()),
        key=lambda pair: pair[0],
        default=(0, []),
    )
    if not most or ns < FILE_SHARE * slept_ns:
        return None
    longest = max(most, key=lambda sleep: sleep.ns)
    assert longest.file is not None
    return MainFile(
        _without_bystanders(longest.file, most),
        ns,
        slept_ns,
        longest.syscall in WRITES,
        as_client.get(longest.file.peer_address, 0),
        sum(sleep.count for sleep in most),
    )


def _without_bystanders(file: SleepFile, slept: Sequence[Sleep]) -> SleepFile:
    """Return the file without its peers, if another process ended most waits on it.

    That has, or had, the other end too: who was found to have it may only have inherited it.
    """
    waker = main_waker(slept)
    if waker is None or not waker.pid or waker.pid in (peer.pid for peer in file.peers):
        return file
    # For whoever wrote to it: drivers/tty/tty_buffer.c:flush_to_ldisc(), 5.14 to 6.18.
    if file.kind == "device" and waker.comm.startswith("kworker/"):
        return file
    return replace(file, peers=())
