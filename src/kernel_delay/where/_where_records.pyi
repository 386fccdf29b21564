"""Types of the extension _where_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import (
    Array,
    CData,
    CType,
    Flat,
    Function,
    Null,
    Number,
    Pointer,
)

_T = TypeVar("_T")
_C = TypeVar("_C", bound=CData)

class StandingThread(CData):
    switches: int
    now_ns: int
    left_cpu_ns: int
    not_counted_ns: int
    queued_ns: int
    syscall: int
    jobctl: int
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

class _FFI:
    NULL: Final[Null]
    errno: int
    def string(self, text: Array[bytes] | Pointer[bytes], maxlen: int = ..., /) -> bytes: ...
    @overload
    def unpack(  # type: ignore[overload-overlap]  # chars are not a list
        self, items: Array[bytes] | Pointer[bytes], length: int, /
    ) -> bytes: ...
    @overload
    def unpack(self, items: Array[_T] | Pointer[_T], length: int, /) -> list[_T]: ...
    def buffer(self, memory: CData, size: int = ..., /) -> Flat: ...
    def sizeof(self, kind: str | CData | CType[object], /) -> int: ...
    def gc(self, owned: _T, free: Callable[[_T], object], /) -> _T: ...
    @overload
    def typeof(self, kind: str, /) -> CType[CData]: ...
    @overload
    def typeof(self, value: _C, /) -> CType[_C]: ...
    @overload
    def new(self, kind: Literal["char[]"], init: int | bytes, /) -> Array[bytes]: ...
    @overload
    def new(self, kind: Literal["void **"], /) -> Pointer[Pointer[None]]: ...
    @overload
    def new(self, kind: Literal['int[]', 'int32_t[]', 'int64_t[]', 'size_t[]', 'uint8_t[]', 'uint32_t[]', 'uint64_t[]', 'uintptr_t[]'], init: int | Iterable[int] | Buffer = ..., /) -> Array[int]: ...
    @overload
    def new(self, kind: Literal['int *', 'int32_t *', 'int64_t *', 'size_t *', 'uint8_t *', 'uint32_t *', 'uint64_t *', 'uintptr_t *'], init: int = ..., /) -> Pointer[int]: ...
    @overload
    def new(self, kind: Literal['int **', 'int32_t **', 'int64_t **', 'size_t **', 'uint8_t **', 'uint32_t **', 'uint64_t **', 'uintptr_t **'], /) -> Pointer[Pointer[int]]: ...
    @overload
    def new(self, kind: Literal['struct standing_thread *'], init: StandingThread = ..., /) -> StandingThreadPointer: ...
    @overload
    def new(self, kind: Literal['struct standing_thread[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[StandingThread]: ...
    @overload
    def new(self, kind: Literal['struct standing_thread **'], /) -> Pointer[StandingThreadPointer]: ...
    @overload
    def new(self, kind: CType[Array[_T]], init: int, /) -> Array[_T]: ...
    @overload
    def cast(self, kind: Literal['int', 'int32_t', 'int64_t', 'size_t', 'uint8_t', 'uint32_t', 'uint64_t', 'uintptr_t'], value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: Literal['int *', 'int32_t *', 'int64_t *', 'size_t *', 'uint8_t *', 'uint32_t *', 'uint64_t *', 'uintptr_t *'], value: int | CData, /) -> Pointer[int]: ...
    @overload
    def cast(self, kind: Literal['struct standing_thread *'], value: int | CData, /) -> StandingThreadPointer: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: Literal['int[]', 'int32_t[]', 'int64_t[]', 'size_t[]', 'uint8_t[]', 'uint32_t[]', 'uint64_t[]', 'uintptr_t[]'], memory: Buffer, /) -> Array[int]: ...
    @overload
    def from_buffer(self, kind: Literal['struct standing_thread *'], memory: Buffer, /) -> StandingThreadPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct standing_thread[]'], memory: Buffer, /) -> Array[StandingThread]: ...
    @overload
    def from_buffer(self, kind: str, memory: Buffer, /) -> Any: ...
    @overload
    def addressof(self, struct: StandingThread, field: Literal['switches', 'now_ns', 'left_cpu_ns', 'not_counted_ns', 'queued_ns', 'syscall', 'jobctl', 'mmap_lock', 'tid', 'process', 'own_tid', 'task_state', 'on_cpu', 'cpu', 'is_frozen', 'is_throttled', 'is_kernel_worker', 'has_registers', 'kernel_frames', 'lock_kind', 'lock_holder', 'unused'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[StandingThread], index: int, /) -> StandingThreadPointer: ...
    @overload
    def addressof(self, struct: StandingThread, /) -> StandingThreadPointer: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: CData, field: str, /) -> Any: ...

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
