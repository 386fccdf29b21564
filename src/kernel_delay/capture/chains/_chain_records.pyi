"""Types of the extension _chain_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class ChainEvent(Struct[ChainEventPointer]):
    now_ns: int
    inode: int
    frames: Array[int]
    kind: int
    state: int
    tid: int
    process: int
    waker: int
    waker_process: int
    waker_kind: int
    running: int
    syscall: int
    descriptor: int
    waker_comm: Array[bytes]
    comm: Array[bytes]
    device: int
    switches: int
    tgid: int
    ended_child: int
    was_frozen: int
class ChainEventPointer(ChainEvent, Pointer[ChainEvent]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct chain_event *'], init: ChainEvent = ..., /) -> ChainEventPointer: ...
    @overload
    def new(self, kind: Literal["char[]"], init: int | bytes, /) -> Array[bytes]: ...
    @overload
    def new(self, kind: Literal["void **"], /) -> Pointer[Pointer[None]]: ...
    @overload
    def new(
        self, kind: IntegerArray, init: int | Iterable[int] | Buffer = ..., /
    ) -> Array[int]: ...
    @overload
    def new(self, kind: IntegerPointer, init: int = ..., /) -> Pointer[int]: ...
    @overload
    def new(self, kind: IntegerPointerPointer, /) -> Pointer[Pointer[int]]: ...
    @overload
    def new(self, kind: CType[Array[_T]], init: int, /) -> Array[_T]: ...
    @overload
    def from_buffer(self, kind: Literal['struct chain_event *'], memory: Buffer, /) -> ChainEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...

class _Lib:
    CHAIN_COMM: Final[int]
    CHAIN_FORKED: Final[int]
    CHAIN_FRAMES: Final[int]
    CHAIN_GOT_CPU: Final[int]
    CHAIN_LEFT_CPU: Final[int]
    CHAIN_SEEN: Final[int]
    CHAIN_SIGNALLED: Final[int]
    CHAIN_WOKEN: Final[int]

ffi: _FFI
lib: _Lib
