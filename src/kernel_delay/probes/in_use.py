"""Why the kernel refuses a uprobe: that another program has one there, attached in another way."""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kernel_delay.errors import KernelDelayError, UnavailableError
from kernel_delay.formatting import printable
from kernel_delay.host.file_status import file_status
from kernel_delay.host.stored_files import Root
from kernel_delay.host.target import living_thread
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import attached_uprobe
from kernel_delay.loader.programs import Program
from kernel_delay.probes import UserProbe


def in_use(
    error: BpfError, program: Program, pid: int, name: str, places: Iterable[UserProbe]
) -> KernelDelayError | None:
    """Return the exception where a program could not be attached, as another one is.

    `name` is the probe's, at these places; None where it is refused for another reason.

    The kernel takes uprobes at one place with one offset of a semaphore
    (kernel/events/uprobes.c:alloc_uprobe(), 5.14 to 6.18, ref_ctr_offset). BCC counts up the
    semaphore itself; what its Python (0.26) gives for the offset is whatever lies on the stack, as
    it calls bpf_attach_uprobe() without its last argument.
    """
    if error.errno != errno.EINVAL:
        return None
    for place in places:
        holder = _holder(place)
        if holder is not None or (place.semaphore_offset and _takes_none(program, pid, place)):
            return UnavailableError(
                f"{holder or 'another program'} has attached to {name} with another semaphore, as"
                " BCC's scripts do, and the kernel takes one only",
                "end that program first",
            )
    return None


def _takes_none(program: Program, pid: int, place: UserProbe) -> bool:
    """Whether it can be attached without a semaphore, which nobody would count up then."""
    try:
        program.attach_uprobe(
            living_thread(pid) or pid,
            place.path,
            place.file_offset,
            is_return=False,
            semaphore_offset=0,
        ).close()
    except BpfError:
        return False
    return True


def _holder(place: UserProbe) -> str | None:
    """Who has a program there, as far as this user may see: its name and PID."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        with suppress(OSError):
            for fd in _perf_events(pid):
                found = attached_uprobe(int(pid), fd)
                if (
                    found is not None
                    and found.offset == place.file_offset
                    and _is_same_file(pid, found.path, place.path)
                ):
                    comm = Path(f"/proc/{pid}/comm").read_text(errors="backslashreplace")
                    return f"{printable(comm.rstrip())} ({pid})"
    return None


def _perf_events(pid: str) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        with suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{fd}") == "anon_inode:[perf_event]":
                yield int(fd)


def _is_same_file(pid: str, path: str, place: str) -> bool:
    with suppress(OSError):
        root = Root(Path(f"/proc/{pid}/root"))
        try:
            found = root.find(path)
            try:
                return file_status(f"/proc/self/fd/{found}") == file_status(place)
            finally:
                os.close(found)
        finally:
            root.close()
    return False
