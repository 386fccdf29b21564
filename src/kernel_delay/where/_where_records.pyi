"""Types of the extension _where_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class StandingThread(Struct[StandingThreadPointer]):
    switches: int
    now_ns: int
    left_cpu_ns: int
    not_counted_ns: int
    queued_ns: int
    syscall: int
    jobctl: int
    thread_pointer: int
    kernel_lock: int
    mmap_lock: int
    tid: int
    process: int
    own_tid: int
    task_state: int
    on_cpu: int
    cpu: int
    is_frozen: int
    is_throttled: int
    is_kernel_worker: int
    has_registers: int
    kernel_frames: int
    lock_kind: int
    lock_holder: int
    unused: int
    registers: Array[int]
    kernel: Array[int]
    comm: Array[bytes]
    lock_holder_comm: Array[bytes]
class StandingThreadPointer(StandingThread, Pointer[StandingThread]): ...

class _FFI(FFI):
    @overload
    def from_buffer(self, kind: Literal['struct standing_thread[]'], memory: Buffer, /) -> Array[StandingThread]: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...

class _Lib:
    KERNEL_LOCK_MUTEX: Final[int]
    KERNEL_LOCK_NONE: Final[int]
    KERNEL_LOCK_READERS: Final[int]
    KERNEL_LOCK_RWSEM: Final[int]
    KERNEL_LOCK_SEMAPHORE: Final[int]
    STANDING_COMM: Final[int]
    STANDING_FRAMES: Final[int]
    STANDING_REGISTERS: Final[int]

ffi: _FFI
lib: _Lib
