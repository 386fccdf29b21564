"""Types of the extension _upcall_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class UpcallControl(Struct[UpcallControlPointer]):
    lost: int
class UpcallControlPointer(UpcallControl, Pointer[UpcallControl]): ...

class UpcallCounterKey(Struct[UpcallCounterKeyPointer]):
    epoch: int
    cpu: int
    error: int
class UpcallCounterKeyPointer(UpcallCounterKey, Pointer[UpcallCounterKey]): ...

class UpcallOptions(Struct[UpcallOptionsPointer]):
    network_inode: int
class UpcallOptionsPointer(UpcallOptions, Pointer[UpcallOptions]): ...

class _FFI(FFI):
    @overload
    def cast(self, kind: Literal['struct upcall_options *'], value: int | CData, /) -> UpcallOptionsPointer: ...
    @overload
    def cast(self, kind: Integer, value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: IntegerPointer, value: int | CData, /) -> Pointer[int]: ...
    @overload
    def from_buffer(self, kind: Literal['struct upcall_control *'], memory: Buffer, /) -> UpcallControlPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct upcall_counter_key *'], memory: Buffer, /) -> UpcallCounterKeyPointer: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...
    @overload
    def addressof(self, struct: UpcallControl, field: Literal['lost'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: Struct[_P], /) -> _P: ...
    @overload
    def addressof(self, array: Elements[Struct[_P]], index: int, /) -> _P: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...

class _Lib:
    ...

ffi: _FFI
lib: _Lib
