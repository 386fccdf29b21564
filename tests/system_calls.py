"""Numbers of system calls, for tests that ask the kernel by number."""

from kernel_delay.host.syscalls import syscalls


def syscall_number(name: str) -> int | None:
    """Return the number of the native architecture's call, or None if it has no such call."""
    return next((call.number for call in syscalls(name) if call.abi is None), None)
