"""Names and numbers of system calls on this machine, from libseccomp's table."""

from functools import cache

from kernel_delay.host._seccomp import ffi, lib

# Those whose purpose is to wait for something to happen on file descriptors:
# between two of them a thread works through what there was. A kernel has not
# each of them on every architecture.
POLLS = ("poll", "ppoll", "epoll_wait", "epoll_pwait", "epoll_pwait2")

# No number is as high: Linux 7.2 is at 470 (include/uapi/asm-generic/unistd.h).
NUMBERS_END = 1024


@cache
def syscall_name(number: int) -> str | None:
    """Return the name of the native architecture's call, or None if the table has none."""
    text = lib.seccomp_syscall_resolve_num_arch(lib.seccomp_arch_native(), number)
    if text == ffi.NULL:
        return None
    try:
        return str(ffi.string(text).decode())
    finally:
        lib.free(text)


def syscall_number(name: str) -> int | None:
    """Return the number of the native architecture's call, or None if it has no such call.

    seccomp_syscall_resolve_name(3): negative numbers are calls of other
    architectures, or no calls at all.
    """
    number = int(lib.seccomp_syscall_resolve_name_arch(lib.seccomp_arch_native(), name.encode()))
    return number if number >= 0 else None


def syscall_names() -> tuple[str, ...]:
    """Return the names of all of the native architecture's calls."""
    names = (syscall_name(number) for number in range(NUMBERS_END))
    return tuple(name for name in names if name is not None)
