"""Types of the extension _signals; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class _FFI(FFI):
    ...

class _Lib:
    END_AT_ONCE: Final[int]
    END_NOT: Final[int]
    END_SOON: Final[int]
    def signals_give(self) -> None: ...
    def signals_noted(self) -> int: ...
    def signals_quit(self) -> None: ...
    def signals_set(self, a0: int, /) -> int: ...
    def signals_set_shutdown_modes(self, a0: int, /) -> int: ...
    def signals_set_shutdown_text(self, a0: int, a1: Pointer[bytes] | Array[bytes] | bytes | Null, /) -> None: ...
    def signals_take(self) -> None: ...
    def signals_wake(self, a0: int, /) -> None: ...

ffi: _FFI
lib: _Lib
