"""Numbers of system calls, for tests that ask the kernel by number."""

from kernel_delay.host.syscalls import syscalls


def syscall_number(name: str) -> int | None:
    """Return the number of the native architecture's call, or None if it has no such call."""
    return next((call.number for call in syscalls(name) if call.abi is None), None)


def made_call(*names: str) -> str:
    """The first of these calls that there is here: arm64 lacks those that newer ones replace."""
    return next(name for name in names if syscall_number(name) is not None)
