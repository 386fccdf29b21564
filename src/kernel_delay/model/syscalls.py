"""System calls: what a thread's calls of one add up to, and each by itself with its stacks."""

from typing import Literal

from msgspec import Struct

from kernel_delay.model.intervals import Histogram

Abi = Literal["i386", "x32", "arm"]
"""An ABI that a 64-bit kernel serves beside its own: its numbers mean other calls."""


class SyscallStats(Struct, frozen=True):
    """One thread's calls of one system call that began and ended within the window.

    `number` is that of the ABI the call was made by: `abi`, or None for the
    machine's own. `name` is None when libseccomp's table does not know it.

    The next four, `guest_ns` and `unaccounted_ns`, say where all time in these calls
    went, with what lies within the window of those that were under way at its boundaries: on
    a CPU (interrupts included), waiting for one, asleep, stopped, in a virtual machine,
    and what could not be known. So with accounting `count` may be 0; without, the six
    are None.
    """

    number: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int
    histogram: Histogram = ()
    on_cpu_ns: int | None = None
    ready_ns: int | None = None
    blocked_ns: int | None = None
    stopped_ns: int | None = None
    abi: Abi | None = None
    without_entry: int = 0
    guest_ns: int | None = None
    unaccounted_ns: int | None = None


class StackFrame(Struct, frozen=True):
    """One function on a stack, or what is known of it.

    `name` is None where no symbol covers `address`; `offset` counts from the
    function, without a name from the object's start. `object` is the file's
    path, "kernel" or a module's name, "[vdso]", "[anon]" for code without a
    file, or None. `source` is "file:line" where asked for and known.
    `inlined`: into the next frame's function.
    """

    address: int
    name: str | None
    offset: int
    object: str | None
    source: str | None = None
    inlined: bool = False


class SyscallEvent(Struct, frozen=True, gc=False):
    """One call of a system call that began and ended within the window.

    `number`, `name` and `abi` are as in SyscallStats. `ret` is what the kernel
    returned: on failure an errno, negative. The stacks are places in the
    Sample's `stacks`, None if not taken. `off_cpu_ns` is how much of its time it was ready,
    asleep or stopped; None without accounting, and where that is not known for certain.
    """

    tid: int
    number: int
    name: str | None
    entry_ns: int
    exit_ns: int
    ret: int
    kernel_stack: int | None
    user_stack: int | None
    abi: Abi | None = None
    off_cpu_ns: int | None = None
