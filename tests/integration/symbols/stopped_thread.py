"""A thread stopped by ptrace(2): its registers in DWARF's order, and a copy of its stack."""

import contextlib
import ctypes
import os
import platform
import signal
from collections.abc import Iterator

PTRACE_ATTACH = 16
PTRACE_DETACH = 17
PTRACE_SINGLESTEP = 9
PTRACE_GETREGSET = 0x4204
NT_PRSTATUS = 1
WALL = 0x40000000

# Where struct user_regs_struct (x86, <sys/user.h>) has DWARF's registers 0 to 16.
X86_64 = (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16)
SP = 7 if platform.machine() == "x86_64" else 31


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class StoppedThread:
    def __init__(self, tid: int) -> None:
        self.tid = tid

    def registers(self) -> tuple[int, ...]:
        words = (ctypes.c_uint64 * 64)()
        vector = _Vector(ctypes.addressof(words), ctypes.sizeof(words))
        ptrace(PTRACE_GETREGSET, self.tid, NT_PRSTATUS, ctypes.addressof(vector))
        if platform.machine() == "x86_64":
            return tuple(words[i] for i in X86_64)
        return tuple(words[:33])

    def place(self) -> tuple[int, int]:
        """The instruction it comes to next, and its stack pointer."""
        registers = self.registers()
        return registers[-1], registers[SP]

    def stack(self, size: int = 16384) -> tuple[int, bytes]:
        _, sp = self.place()
        with open(f"/proc/{self.tid}/mem", "rb", buffering=0) as memory:
            copy = b""
            while len(copy) < size:
                here = sp + len(copy)
                block = min(size - len(copy), 4096 - here % 4096)
                with contextlib.suppress(OSError):
                    memory.seek(here)
                    copy += memory.read(block)
                    continue
                break
        return sp, copy

    def step(self) -> None:
        ptrace(PTRACE_SINGLESTEP, self.tid, 0, 0)
        wait(self.tid)


@contextlib.contextmanager
def stopped(tid: int) -> Iterator[StoppedThread]:
    ptrace(PTRACE_ATTACH, tid, 0, 0)
    wait(tid)
    try:
        yield StoppedThread(tid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            ptrace(PTRACE_DETACH, tid, 0, 0)


def wait(tid: int) -> None:
    _, status = os.waitpid(tid, WALL)
    assert os.WIFSTOPPED(status), f"thread {tid} ended with status {status:#x}"
    assert os.WSTOPSIG(status) in (signal.SIGSTOP, signal.SIGTRAP)


def ptrace(request: int, tid: int, address: int, data: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    arguments = (ctypes.c_long(tid), ctypes.c_void_p(address), ctypes.c_void_p(data))
    if libc.ptrace(request, *arguments) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace({request:#x}): {os.strerror(error)}")
