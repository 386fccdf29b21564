"""What cffi hands out, to the type checker: there is no such module when the tool runs.

The stubs of the extensions, written by setup/extension_stubs.py, are made of these and
of a class for each struct. Import it under TYPE_CHECKING only.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, overload

from typing_extensions import Buffer

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

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
