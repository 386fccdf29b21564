"""Types of the extension _block; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class _FFI(FFI):
    ...

class _Lib:
    BLOCKS: Final[int]
    def block_begins(self, a0: int, /) -> None: ...
    def block_ends(self, a0: int, /) -> None: ...

ffi: _FFI
lib: _Lib
