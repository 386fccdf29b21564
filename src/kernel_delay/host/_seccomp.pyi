"""Types of the extension _seccomp; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class _FFI(FFI):
    ...

class _Lib:
    SCMP_ARCH_ARM: Final[int]
    SCMP_ARCH_X32: Final[int]
    SCMP_ARCH_X86: Final[int]
    def allow_calls(self, a0: Pointer[int] | Array[int] | Null, a1: int, /) -> int: ...
    def deny_calls(self, a0: Pointer[int] | Array[int] | Null, a1: int, a2: Pointer[int] | Array[int] | Null, a3: int, /) -> int: ...
    def end_with_parent(self) -> None: ...
    def free(self, a0: CData | bytes, /) -> None: ...
    def limit_capabilities(self, a0: int, /) -> int: ...
    def seccomp_arch_native(self) -> int: ...
    def seccomp_syscall_resolve_name_arch(self, a0: int, a1: Pointer[bytes] | Array[bytes] | bytes | Null, /) -> int: ...
    def seccomp_syscall_resolve_num_arch(self, a0: int, a1: int, /) -> Pointer[bytes]: ...

ffi: _FFI
lib: _Lib
