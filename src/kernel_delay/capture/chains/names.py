"""What the threads and processes of chains are called, also those that are gone."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kernel_delay.capture.chains._chain_records import ffi
from kernel_delay.capture.chains.states import ThreadStates
from kernel_delay.host.target import PROC, read_comm, title_of
from kernel_delay.model import ChainThread

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

# Threads that are not followed.
MOST_WAKERS = 4096


class Names:
    """The names, as events and /proc had them."""

    def __init__(self) -> None:
        """None is known yet."""
        self._wakers: dict[int, ChainThread] = {}
        # Names and titles of processes; a window long.
        self._processes: dict[int, tuple[str, str | None]] = {}

    def note_waker(self, event: "ChainEvent") -> None:
        """Note the other thread that an event has, if it has one."""
        if event.waker:
            name = ffi.string(event.waker_comm).decode(errors="backslashreplace")
            self._wakers[event.waker] = ChainThread(event.waker, event.waker_process, name)

    def waker(self, tid: int) -> ChainThread | None:
        """Return a thread that was noted so."""
        return self._wakers.get(tid)

    def named(self, tid: int, states: Mapping[int, ThreadStates]) -> ChainThread:
        """Return a thread with its names; `states` are those of threads that are followed."""
        known = self._wakers.get(tid, ChainThread(tid, 0, ""))
        if tid in states:
            known = ChainThread(tid, states[tid].process, states[tid].name)
        return self.with_process(known, states)

    def with_process(self, known: ChainThread, states: Mapping[int, ThreadStates]) -> ChainThread:
        """Return a thread with the name and title of its process."""
        pid = known.pid
        if pid and pid not in self._processes:
            self._processes[pid] = _comm(pid), title_of(pid)
        comm, title = self._processes.get(pid, ("", None))
        if not comm and pid in states:
            comm = states[pid].name
        return replace(known, process=comm, title=title)

    def renew(self) -> None:
        """Read /proc again from now on."""
        self._processes.clear()

    def forget(self) -> None:
        """Read /proc again, and forget threads if there are many."""
        self.renew()
        if len(self._wakers) > MOST_WAKERS:
            self._wakers.clear()


def name_in(event: "ChainEvent") -> str:
    """Return the name of the thread that an event is of, as it was then."""
    return ffi.string(event.comm).decode(errors="backslashreplace")


def _comm(pid: int) -> str:
    """The name of a process; empty: it is gone."""
    with suppress(OSError):
        return read_comm(PROC / str(pid))
    return ""
