"""Names and numbers of system calls on this machine, from libseccomp's tables.

A kernel serves 32-bit programs too, and programs of x32, by ABIs in which
numbers mean other calls. So a call is known by its ABI and its number.
"""

import os
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from kernel_delay.host._seccomp import ffi, lib
from kernel_delay.model import Abi

# No number is as high: Linux 7.2 is at 470 (include/uapi/asm-generic/unistd.h), x32 at 547.
NUMBERS_END = 1024

# Those of 32-bit programs.
COMPAT_ABIS: tuple[Abi, ...] = ("i386", "arm")

# __X32_SYSCALL_BIT, arch/x86/include/uapi/asm/unistd.h: x32 calls have it in their numbers.
X32_BIT = 1 << 30


# More than a program makes; one that calls any number must not fill the memory.
CALLS_REMEMBERED = 4096


class Syscall(NamedTuple):
    """A system call: a number, as an int, in an ABI, and its name.

    `abi` is None for the machine's own, `name` where libseccomp's table has none.
    """

    abi: Abi | None
    number: int
    name: str | None

    @property
    def compat(self) -> bool:
        """Whether it is of the ABI that the machine has for 32-bit programs."""
        return self.abi in COMPAT_ABIS


@lru_cache(CALLS_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def syscall(number: int, compat: bool = False) -> Syscall:
    """Return what a task calls by a number: in the 32-bit ABI if `compat`."""
    abi = _abi(number, compat)
    return Syscall(abi, number, _name(_architectures()[abi], number))


@lru_cache(CALLS_REMEMBERED)  # type: ignore[misc]  # functools' own types have Any
def syscall_name(number: int) -> str | None:
    """Return the name of the native architecture's call, or None if the table has none."""
    return _name(lib.seccomp_arch_native(), number)


def syscalls(name: str) -> frozenset[Syscall]:
    """Return the calls of that name in all of the machine's ABIs: none, one or several."""
    found = ((abi, _number(arch, name)) for abi, arch in _architectures().items())
    return frozenset(
        syscall(number, compat=abi in COMPAT_ABIS) for abi, number in found if number is not None
    )


def native(name: str) -> Iterator[Syscall]:
    """Yield the calls of that name but the 32-bit ones, which have their arguments elsewhere."""
    return (call for call in syscalls(name) if call.abi is None)


def syscall_names() -> tuple[str, ...]:
    """Return the names of all of the native architecture's calls."""
    names = (syscall_name(number) for number in range(NUMBERS_END))
    return tuple(name for name in names if name is not None)


@cache  # type: ignore[misc]  # as above
def _architectures() -> dict[Abi | None, int]:
    """The ABIs this machine's kernel may serve, as libseccomp knows them."""
    native = lib.seccomp_arch_native()
    match os.uname().machine:
        case "x86_64":
            return {None: native, "i386": lib.SCMP_ARCH_X86, "x32": lib.SCMP_ARCH_X32}
        case "aarch64":
            return {None: native, "arm": lib.SCMP_ARCH_ARM}
    return {None: native}


def _abi(number: int, compat: bool) -> Abi | None:
    abis = _architectures()
    if compat:
        return "i386" if "i386" in abis else "arm"
    return "x32" if "x32" in abis and number > 0 and number & X32_BIT else None


def _name(architecture: int, number: int) -> str | None:
    text = lib.seccomp_syscall_resolve_num_arch(architecture, number)
    if text == ffi.NULL:
        return None
    try:
        return ffi.string(text).decode()
    finally:
        lib.free(text)


def _number(architecture: int, name: str) -> int | None:
    """seccomp_syscall_resolve_name(3): negative numbers are no calls of the architecture's."""
    # An argument need not be UTF-8.
    number = lib.seccomp_syscall_resolve_name_arch(architecture, os.fsencode(name))
    return number if number >= 0 else None
