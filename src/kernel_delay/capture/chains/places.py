"""Where threads sleep: for what, in which call, and on which file."""

from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kernel_delay.analysis.sleep_reasons import sleep_reason
from kernel_delay.capture.chains._chain_records import lib
from kernel_delay.capture.chains.slices import Place
from kernel_delay.capture.sleep_files import FileKey
from kernel_delay.host.file_status import file_status
from kernel_delay.host.kernel_names import EPOLLS, FILE_CALLS, SET_POLLS, WRITES
from kernel_delay.host.open_files import kernel_device
from kernel_delay.host.open_files.fuse import is_fuse
from kernel_delay.host.syscalls import syscall_name
from kernel_delay.host.target import PROC
from kernel_delay.model import SleepReason
from kernel_delay.symbols import KernelSymbols

if TYPE_CHECKING:
    from kernel_delay.capture.chains._chain_records import ChainEvent

_INODE_MASK = _DESCRIPTOR_MASK = 0xFFFFFFFF

# Devices of which it is remembered whether they are of FUSE.
_MOST_DEVICES = 4096

# They do nothing but sleep, whatever the kernel's functions are called.
_SLEEPS = ("nanosleep", "clock_nanosleep")


class Places:
    """What the places of sleeps are; what was found out once is remembered."""

    def __init__(self) -> None:
        """Read the kernel's symbols."""
        self._kernel = KernelSymbols()
        # They are read at the first question, which takes a while: not within a window.
        self._kernel.symbolise(0, exact=False)
        self._reasons: dict[tuple[int, ...], SleepReason] = {}
        self._are_fuse: dict[int, bool] = {}

    def of(self, event: "ChainEvent") -> Place:
        """Return the place that an event has."""
        frames = tuple(event.frames[0 : lib.CHAIN_FRAMES])
        frames = frames[: frames.index(0)] if 0 in frames else frames
        if frames not in self._reasons:
            names = [self._kernel.symbolise(pc, exact=False).name or "" for pc in frames]
            self._reasons[frames] = sleep_reason(names)
        inode = event.inode & _INODE_MASK
        place = Place(self._reasons[frames], event.syscall, event.descriptor, inode, event.device)
        return self._judged(event.process, place)

    def now(self, pid: int, tid: int) -> Place:
        """Return where a thread sleeps, by /proc; what can't be read is not known."""
        process = PROC / str(pid) / "task" / str(tid)
        reason: SleepReason = "unknown"
        with suppress(OSError):
            lines = (process / "stack").read_text().splitlines()
            reason = sleep_reason([line.partition("] ")[2].partition("+")[0] for line in lines])
        with suppress(OSError, ValueError, IndexError):
            number, first, *_ = (process / "syscall").read_text().split()
            # As an event has it: of the address of what is polled too.
            fd = int(first, 16) & _DESCRIPTOR_MASK
            inode = device = 0
            with suppress(OSError):
                status = file_status(f"{process}/fd/{fd}")
                inode = status.inode & _INODE_MASK
                device = kernel_device(status.device)
            return self._judged(pid, Place(reason, int(number), fd, inode, device))
        return Place(reason)

    def _judged(self, pid: int, place: Place) -> Place:
        """What a thread sleeps for: by the kernel's functions, its call and its file's system."""
        name = syscall_name(place.syscall) if place.syscall >= 0 else None
        if place.reason == "unknown" and name in _SLEEPS:
            return replace(place, reason="clock")
        if place.reason == "poll" and name in SET_POLLS and not place.fd:
            # Of no descriptor.
            return replace(place, reason="clock")
        if place.reason == "page_cache" and self._is_fuse(pid, place.device):
            # Its server is to fill the page.
            return replace(place, reason="fuse")
        return place

    def _is_fuse(self, pid: int, device: int) -> bool:
        if device not in self._are_fuse:
            if len(self._are_fuse) >= _MOST_DEVICES:
                self._are_fuse.clear()
            self._are_fuse[device] = device > 0 and is_fuse(pid, device)
        return self._are_fuse[device]


def file_key(process: int, place: Place) -> FileKey | None:
    """Return which file a thread of the process sleeps on there; None: on none, or it polls."""
    name = syscall_name(place.syscall) if place.inode and place.syscall >= 0 else None
    if name not in FILE_CALLS or name in EPOLLS:
        return None
    return FileKey(process, place.fd, place.inode, name in WRITES)
