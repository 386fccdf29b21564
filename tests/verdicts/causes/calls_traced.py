"""A BPF program of somebody's runs at each system call of all processes."""

import ctypes
import errno
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import LIFE_S, running, tell
from tests.verdicts.truth import Staged, cause

# include/uapi/linux/bpf.h
BPF_PROG_LOAD, BPF_RAW_TRACEPOINT_OPEN = 5, 17
BPF_PROG_TYPE_RAW_TRACEPOINT = 17
BPF_FUNC_KTIME_GET_NS = 5
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]

# So often it asks for the time, as what a tracer does at each call takes some.
TIMES = 100

ATTRIBUTES = 128


def _instruction(code: int, registers: int, offset: int, immediate: int) -> bytes:
    return struct.pack("<BBhi", code, registers, offset, immediate)


PROGRAM = b"".join(
    (
        _instruction(0xB7, 6, 0, TIMES),  # r6 = TIMES
        _instruction(0x85, 0, 0, BPF_FUNC_KTIME_GET_NS),
        _instruction(0x07, 6, 0, -1),  # r6 -= 1
        _instruction(0x55, 6, -3, 0),  # if r6 != 0 go back to the call
        _instruction(0xB7, 0, 0, 0),  # r0 = 0
        _instruction(0x95, 0, 0, 0),  # exit
    )
)


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(SYS_BPF, command, attributes.ljust(ATTRIBUTES, b"\0"), ATTRIBUTES)
    return found if found >= 0 else -ctypes.get_errno()


def tracer() -> None:
    """A role: have a program run at each call."""
    code = ctypes.create_string_buffer(PROGRAM, len(PROGRAM))
    licence = ctypes.create_string_buffer(b"GPL")
    load = struct.pack(
        "<IIQQ",
        BPF_PROG_TYPE_RAW_TRACEPOINT,
        len(PROGRAM) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
    )
    program = _bpf(BPF_PROG_LOAD, load)
    for point in (b"sys_enter", b"sys_exit"):
        name = ctypes.create_string_buffer(point)
        attached = _bpf(
            BPF_RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(name), max(0, program))
        )
        if min(program, attached) < 0:
            tell(refused=f"no BPF program: {errno.errorcode.get(-min(program, attached))}")
            return
    tell()
    time.sleep(LIFE_S)


def victim() -> None:
    getppid = os.getppid
    tell()
    while True:
        getppid()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(tracer, name="tracer"), running(victim) as process:
        yield Staged(
            process.pid,
            cause(
                "kernel_work",
                names=("times the usual", "runs at each call"),
                also=("doubtful_user", "user_work"),
                innocent=("Fewer calls",),
            ),
        )
