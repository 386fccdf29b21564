"""Types of the extension _files; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class FileStatus(Struct[FileStatusPointer]):
    inode: int
    device: int
    filesystem: int
    mode: int
class FileStatusPointer(FileStatus, Pointer[FileStatus]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct file_status *'], init: FileStatus = ..., /) -> FileStatusPointer: ...
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

class _Lib:
    def find_in_mount(self, a0: int, a1: Pointer[bytes] | Array[bytes] | bytes | Null, /) -> int: ...
    def find_in_root(self, a0: int, a1: Pointer[bytes] | Array[bytes] | bytes | Null, /) -> int: ...
    def open_stored(self, a0: int, /) -> int: ...
    def read_file_status(self, a0: Pointer[bytes] | Array[bytes] | bytes | Null, a1: FileStatusPointer | Array[FileStatus] | Null, /) -> int: ...
    def use_one_arena(self) -> None: ...

ffi: _FFI
lib: _Lib
