"""Mutexes of glibc's: who owns one, also in another process that shares its memory."""

import struct

from kernel_delay.host.target import PROC
from kernel_delay.symbols.mappings import read_mappings

# As bpf/waited_for.h has it: which futex calls wait for one, and its owner.
LOCKED_AND_WAITED_FOR = 2
_TYPES = 0x3
_RECURSIVE = 1
_ELISION = 0x300
# sysdeps/nptl/pthreadP.h of glibc 2.36: PTHREAD_MUTEX_PSHARED_BIT
_SHARED = 0x80
_NATIVE = struct.Struct("=IIIIIIQQ")
_COMPAT = struct.Struct("=IIIII")

MUTEX_BYTES = _NATIVE.size


def mutex_owner(content: bytes, *, compat: bool, is_shared: bool = False) -> int:
    """Return who owns a mutex, as its process numbers threads; 0 if it can't be one that is owned.

    Args:
        content: MUTEX_BYTES at its address.
        compat: Whether it is a 32-bit program's.
        is_shared: Whether it is waited for as one that processes share.
    """
    if len(content) < _NATIVE.size:
        return 0
    if compat:
        _, count, owner, kind, users = _COMPAT.unpack_from(content)
        robust: tuple[int, ...] = ()
    else:
        _, count, owner, users, kind, _, *robust_list = _NATIVE.unpack(content)
        robust = tuple(robust_list)
    is_recursive = kind & _TYPES == _RECURSIVE
    if not users or any(robust) or kind & ~(_TYPES | _ELISION | _SHARED):
        return 0
    if bool(kind & _SHARED) != is_shared:
        return 0
    return owner if is_recursive == bool(count) else 0


def shares_memory(pid: int, address: int, tid: int) -> bool:
    """Return whether a thread shares that memory of process `pid`.

    The number that a program wrote there may be of another PID namespace: then it is a stranger's.
    """
    try:
        own, other = (read_mappings(PROC / str(each)) for each in (pid, tid))
    except OSError:
        return False
    here = next((each for each in own if each.start <= address < each.end), None)
    if here is None or not here.shared:
        return False
    return any(each.shared and each.file == here.file for each in other)
