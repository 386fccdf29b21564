"""The kernel's own count of an attach point's hits, by perf_event_open(2).

It takes exactly what `resolve` gives, so what it counts shows that the point
is where the trigger says.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_delay.probes import AttachPoint, KernelProbe, Tracepoint, UserProbe

PMUS = Path("/sys/bus/event_source/devices")
SYS_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}

# struct perf_event_attr up to `config2` (include/uapi/linux/perf_event.h, 6.18).
ATTR = struct.Struct("=IIQQQQQIIQQ")


@contextmanager
def counted(point: AttachPoint, tid: int) -> Iterator[int]:
    """Attach for one thread; gives the descriptor that `hits` reads."""
    # The attribute points to the text, which must live as long as the call.
    text = ctypes.create_string_buffer(os.fsencode(_text(point)))
    pmu, config, config2 = _configuration(point)
    config1 = ctypes.addressof(text) if text.value else 0
    number = int((PMUS / pmu / "type").read_text())
    attr = ATTR.pack(number, ATTR.size, config, 0, 0, 0, 0, 0, 0, config1, config2)
    libc = ctypes.CDLL(None, use_errno=True)
    system_call = ctypes.c_long(SYS_PERF_EVENT_OPEN[platform.machine()])
    descriptor = libc.syscall(system_call, attr, tid, -1, -1, ctypes.c_ulong(0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"{point}: {os.strerror(ctypes.get_errno())}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def hits(descriptor: int) -> int:
    return int.from_bytes(os.read(descriptor, 8), "little")


def _text(point: AttachPoint) -> str:
    match point:
        case UserProbe(path=path):
            return path
        case KernelProbe(function=function):
            return function
        case Tracepoint():
            return ""


def _configuration(point: AttachPoint) -> tuple[str, int, int]:
    """The PMU, and perf_event_attr's `config` and `config2`."""
    match point:
        case UserProbe(semaphore_offset=semaphore):
            return "uprobe", semaphore << 32 | point.is_return, point.file_offset
        case KernelProbe(is_return=is_return, offset=offset):
            return "kprobe", int(is_return), offset
        case Tracepoint(id=number):
            return "tracepoint", number, 0
