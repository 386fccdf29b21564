"""What cffi hands out, to the type checker: there is no such module when the tool runs.

The stubs of the extensions, written by setup/extension_stubs.py, are made of these and
of a class for each struct. Import it under TYPE_CHECKING only.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, Literal, Protocol, TypeVar, overload

from typing_extensions import Buffer

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_P = TypeVar("_P")

# What ffi knows without a declaration, of which the code makes pointers and arrays.
Integer = Literal[
    "int", "int32_t", "int64_t", "size_t", "uint8_t", "uint32_t", "uint64_t", "uintptr_t"
]
IntegerPointer = Literal[
    "int *",
    "int32_t *",
    "int64_t *",
    "size_t *",
    "uint8_t *",
    "uint32_t *",
    "uint64_t *",
    "unsigned long long *",
    "uintptr_t *",
]
IntegerArray = Literal[
    "int[]", "int32_t[]", "int64_t[]", "size_t[]", "uint8_t[]", "uint32_t[]", "uint64_t[]"
]
IntegerPointerPointer = Literal["uint64_t **", "uint32_t **", "uint8_t **"]

_C = TypeVar("_C", bound=CData)

class CData:
    """A C value, or a pointer to one. A null pointer is false."""

    def __bool__(self) -> bool: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Null(CData):
    """ffi.NULL: passes for a pointer of any type."""

class Number(CData):
    """A number of a C type, by ffi.cast()."""

    def __int__(self) -> int: ...

class Function(CData):
    """A pointer to a function."""

class Pointer(CData, Generic[_T]):
    """A pointer to one or more of a type; None is void. Of chars each is a bytes of one."""

    @overload
    def __getitem__(self, index: int, /) -> _T: ...
    @overload
    def __getitem__(self, index: slice, /) -> Array[_T]: ...
    def __setitem__(self, index: int, value: _T, /) -> None: ...
    def __add__(self, count: int, /) -> Pointer[_T]: ...
    def __sub__(self, other: Pointer[_T], /) -> int: ...

class Array(CData, Generic[_T]):
    """An array, whose elements are read and written in place."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_T]: ...
    @overload
    def __getitem__(self, index: int, /) -> _T: ...
    @overload
    def __getitem__(self, index: slice, /) -> Array[_T]: ...
    @overload
    def __setitem__(self, index: int, value: _T, /) -> None: ...
    @overload
    def __setitem__(
        self, index: slice, values: Iterable[_T] | Iterable[tuple[int, ...]] | Array[_T], /
    ) -> None: ...

class Flat(Buffer):
    """Memory as bytes: ffi.buffer()."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __getitem__(self, index: slice, /) -> bytes: ...

class CType(Generic[_T_co]):
    """A C type, as ffi.typeof() has it of a name or a value."""

    @property
    def cname(self) -> str: ...
    @property
    def fields(self) -> list[tuple[str, Field]]: ...
    @property
    def kind(self) -> str: ...

class Field:
    """A field of a struct."""

    @property
    def type(self) -> CType[CData]: ...
    @property
    def offset(self) -> int: ...

class Struct(CData, Generic[_P]):
    """A struct; _P is a pointer to it."""

class Elements(Protocol[_T_co]):
    """An array, of whose elements none is replaced."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_T_co]: ...

class FFI:
    """What each extension's ffi has; a stub puts what it has of its own structs before that."""

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
    def cast(self, kind: Integer, value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: IntegerPointer, value: int | CData, /) -> Pointer[int]: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...
    @overload
    def addressof(self, struct: Struct[_P], /) -> _P: ...
    @overload
    def addressof(self, array: Elements[Struct[_P]], index: int, /) -> _P: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...
