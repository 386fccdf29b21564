"""How often and how long: intervals, interrupts, system calls, and single calls with stacks."""

from typing import Literal

from msgspec import Struct

Histogram = tuple[int, ...]
"""How many intervals lasted from 2^i up to 2^(i+1) ns, for each index i.

All from 2^31 ns on are at index 31, and one of 0 ns at 0. Zeros at the end are
left out, so it is empty when nothing was counted or accounting was off.
"""


class Intervals(Struct, frozen=True, gc=False):
    """How often something happened within the window, and how long it took.

    Attributes:
        count: How often. At least 1.
        total_ns: The sum of the lengths, in ns.
        min_ns: The shortest, in ns.
        max_ns: The longest, in ns.
        histogram: Index i counts lengths from 2^i up to 2^(i+1) ns. Zeros at the end are left out.
    """

    count: int
    total_ns: int
    min_ns: int
    max_ns: int
    histogram: Histogram = ()


class HardIrqStats(Struct, frozen=True, gc=False):
    """Runs of one hard IRQ handler while the thread was on the CPU.

    Attributes:
        name: The name of the handler, as in /proc/interrupts.
        count: The number of runs.
        total_ns: The time of all runs, in ns.
        max_ns: The longest run, in ns.
    """

    name: str
    count: int
    total_ns: int
    max_ns: int


class SoftIrqStats(Struct, frozen=True, gc=False):
    """Runs of one soft IRQ vector while the thread was on the CPU.

    Attributes:
        vector: The number of the vector.
        name: The name of the vector. None: include/linux/interrupt.h (6.18) has no name for it.
        count: The number of runs.
        total_ns: The time of all runs, in ns.
        max_ns: The longest run, in ns.
    """

    vector: int
    name: str | None
    count: int
    total_ns: int
    max_ns: int


Abi = Literal["i386", "x32", "arm"]
"""An ABI that a 64-bit kernel serves beside its own: its numbers mean other calls."""


class SyscallStats(Struct, frozen=True, gc=False):
    """One thread's calls of one system call within the window.

    Attributes:
        number: The number of the call in its ABI.
        name: The name of the call. None: libseccomp does not know the number.
        count: Calls that began and ended within the window. With accounting this can be 0. Not
            known, and 0, where the Sample's `unseen` has "calls".
        total_ns: The time of these calls, in ns.
        max_ns: The longest of these calls, in ns.
        histogram: Index i counts calls from 2^i up to 2^(i+1) ns.
        on_cpu_ns: Time on a CPU within all calls, with interrupts, in ns. Calls that cross a
            boundary count with their part inside. By samples where `unseen` has "calls". None:
            accounting was off.
        ready_ns: Time waiting for a CPU within all calls, in ns. None: accounting was off.
        blocked_ns: Time asleep within all calls, in ns. None: accounting was off.
        stopped_ns: Time stopped within all calls, in ns. None: accounting was off.
        abi: The ABI of the call. None: the machine's own ABI.
        without_entry: Calls denied by seccomp or a tracer before their entry was visible. Not part
            of `count`.
        guest_ns: Time in a virtual machine within all calls, in ns. None: accounting was off.
        unaccounted_ns: Time within all calls that is not known, in ns. None: accounting was off.
        across: Calls that began before the window and ended within it. Not part of `count`. With
            accounting.
        timed_out: Calls that ended within the window by their time-out, of `count` and `across`:
            polls that returned 0, and calls that returned ETIMEDOUT.
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
    across: int = 0
    timed_out: int = 0


class StackFrame(Struct, frozen=True, gc=False):
    """One function on a stack.

    Attributes:
        address: The address in the process or in the kernel.
        name: The function. None: no symbol covers the address.
        offset: The offset in the function. Without a name: the offset in the object.
        object: The file, "kernel", a module, "[vdso]", or "[anon]" for code without a file. None:
            not known.
        source: The source line as "file:line". None: not requested (`--source`) or not known.
        inlined: The function is inlined into the function of the next frame.
    """

    address: int
    name: str | None
    offset: int
    object: str | None
    source: str | None = None
    inlined: bool = False


class SyscallEvent(Struct, frozen=True, gc=False):
    """One system call that began and ended within the window.

    Attributes:
        tid: The thread ID.
        number: The number of the call in its ABI.
        name: The name of the call. None: libseccomp does not know the number.
        entry_ns: The entry (CLOCK_MONOTONIC).
        exit_ns: The return (CLOCK_MONOTONIC).
        ret: The return value. A failure is a negative errno.
        kernel_stack: Where the call slept longest in the kernel: an index into `stacks` of the
            Sample. None: it did not sleep, or mostly less than 200 µs, or accounting was off.
        user_stack: The program's stack: an index into `stacks` of the Sample. None: not taken.
        abi: The ABI of the call. None: the machine's own ABI.
        off_cpu_ns: Time off the CPU within the call, in ns. None: accounting was off, or an event
            was missed.
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
