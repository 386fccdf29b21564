"""Which file a thread waits for in epoll_wait(2) that is still there as the window ends.

No event has come yet. It is a connection on which the thread's process has asked a server that has
not answered, if that is the only one, and it is known that this server answers.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from kernel_delay.capture.sleep_files import (
    FileKey,
    as_it_was_ready,
    find_files,
    with_states,
)
from kernel_delay.capture.threads.collector import ThreadOf
from kernel_delay.host.file_status import file_status
from kernel_delay.host.open_files import MOST_WATCHED, watched_by_epoll
from kernel_delay.host.open_files.tcp_info import exchange, owes_answer
from kernel_delay.host.open_files.unix import UnixSockets
from kernel_delay.host.target import PROC
from kernel_delay.model import Sleep, SleepFile, Thread

MOST_THREADS = 16
"""That are looked at, those that wait longest."""


def with_answers_due(
    threads: Sequence[ThreadOf], unix_sockets: UnixSockets, stop_ns: int
) -> list[ThreadOf]:
    """Return the threads, each with its process, with the file of a wait that goes on.

    Args:
        threads: The threads, whose other files are known.
        unix_sockets: Who has the other ends of sockets.
        stop_ns: When the window ended, by CLOCK_MONOTONIC.
    """
    waits = {thread.tid: wait for _, thread in threads if (wait := _open_wait(thread)) is not None}
    longest = set(sorted(waits, key=lambda tid: -waits[tid].ns)[:MOST_THREADS])
    found = []
    for process, thread in threads:
        if thread.tid in longest:
            wait = waits[thread.tid]
            due = _answer_due(process, thread, wait, unix_sockets, stop_ns)
            found.append((process, _on_file(thread, wait, due) if due is not None else thread))
        else:
            found.append((process, thread))
    return found


def _open_wait(thread: Thread) -> Sleep | None:
    """The wait that nobody has ended, if no other sleep is counted with it."""
    for sleep in thread.sleeps:
        if sleep.reason == "epoll" and sleep.file is not None and sleep.file.kind == "epoll":
            return sleep if sleep.count == 1 and not sleep.wakers else None
    return None


def _answer_due(
    process: int, thread: Thread, wait: Sleep, unix_sockets: UnixSockets, stop_ns: int
) -> SleepFile | None:
    assert wait.file is not None
    files = _watched(process, thread.tid, wait.file.fd, unix_sockets)
    ask = unix_sockets.ask
    due = [file for file in files if file.is_client and _was_asked(ask, file, stop_ns)]
    # Several connections to one server are as good as one.
    if not due or len({file.peers for file in due}) > 1 or (due[1:] and not due[0].peers):
        return None
    return due[0] if any(_answers(ask, thread, file, files) for file in due) else None


def _watched(process: int, tid: int, fd: int, unix_sockets: UnixSockets) -> list[SleepFile]:
    watched = watched_by_epoll(PROC / str(process), fd)
    if len(watched) > MOST_WATCHED:
        return []
    keys = []
    for each in watched:
        with suppress(OSError):
            inode = file_status(f"{PROC}/{process}/fd/{each}").inode & 0xFFFFFFFF
            keys.append(FileKey(process, each, inode, writes=False))
    found = find_files(dict.fromkeys(keys, (tid, "epoll")), unix_sockets)
    return list(with_states(found, unix_sockets).values())


# The kernel's ticks, by which it says when something was sent: CONFIG_HZ_100.
TICK_NS = 10_000_000


def _was_asked(ask: Callable[[bytes], bytes | None], file: SleepFile, stop_ns: int) -> bool:
    """Whether a request was sent before the window ended that was not answered by then."""
    if file.kind != "tcp" or file.peer_address is None:
        return False
    found, now_ns = exchange(ask, file), time.monotonic_ns()
    if found is None or now_ns - found.sent_ns > stop_ns:
        return False
    return found.turn == "other" or now_ns - found.received_ns > stop_ns + TICK_NS


def _answers(
    ask: Callable[[bytes], bytes | None],
    thread: Thread,
    file: SleepFile,
    watched: Sequence[SleepFile],
) -> bool:
    """Whether what is sent there is a request: a receiver of logs answers none.

    It answered within the window, its process is kept from it, or the thread's process owes
    somebody else an answer meanwhile.
    """
    if any(
        sleep.file is not None and (sleep.file.fd, sleep.file.inode) == (file.fd, file.inode)
        for sleep in thread.sleeps
    ):
        return True
    if len(file.peers) == 1 and file.peers[0].is_held and not file.more_peers:
        return True
    servers = (each for each in watched if each.kind == "tcp" and each.is_server)
    return any(owes_answer(ask, each) for each in servers)


def _on_file(thread: Thread, wait: Sleep, file: SleepFile) -> Thread:
    """The thread with its wait on that file, in one with the earlier ones there."""
    others = [sleep for sleep in thread.sleeps if sleep is not wait]
    for place, other in enumerate(others):
        earlier = other.file
        if (
            earlier is not None
            and (other.reason, other.syscall, other.stack) == ("epoll", wait.syscall, wait.stack)
            and (earlier.fd, earlier.inode) == (file.fd, file.inode)
        ):
            # What keeps its other end now did not keep it before.
            is_most = wait.ns > other.ns
            others[place] = replace(
                other,
                file=file if is_most else as_it_was_ready(file),
                count=other.count + wait.count,
                ns=other.ns + wait.ns,
                max_ns=max(other.max_ns, wait.max_ns),
                short_ns=other.short_ns + wait.short_ns,
            )
            break
    else:
        others.append(replace(wait, file=file))
    others.sort(key=lambda sleep: (-sleep.ns, sleep.reason, "".join(sleep.stack)))
    return replace(thread, sleeps=tuple(others))
