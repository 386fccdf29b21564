"""From what the programs took of a stack to the functions on it."""

import resource
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import dropwhile, takewhile
from pathlib import Path

from kernel_delay.capture.plan import COPYING, WALKING, EventPlan
from kernel_delay.capture.syscall_events.user_stacks import LARGE_FRAME, LARGE_FRAMES
from kernel_delay.loader._records import lib
from kernel_delay.model import StackFrame
from kernel_delay.symbols import (
    AddressSpaceApart,
    CodeRange,
    Frame,
    KernelSymbols,
    LargeFrame,
    Machine,
    ProcessImage,
    Stack,
    StackEnd,
)
from kernel_delay.symbols.messages import Copy

# Places in struct pt_regs, as saved in struct event_stacks, in the order of
# the registers' DWARF numbers. x86-64: arch/x86/include/asm/ptrace.h and
# System V ABI, figure 3.36; arm64: arch/arm64/include/uapi/asm/ptrace.h and
# AADWARF64, where the orders are the same.
# A 32-bit program's registers are saved in the same struct: i386, Intel386
# supplement, table 2.14; arm, AADWARF32 and struct compat_user_regs.
DWARF_REGISTERS: dict[Machine, tuple[int, ...]] = {
    "x86_64": (10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16),
    "i386": (10, 11, 12, 5, 19, 4, 13, 14, 16),
    "aarch64": tuple(range(33)),
    "arm": (*range(15), 32),
}
# Of the registers in DWARF's order, the stack pointer.
STACK_POINTER: dict[Machine, int] = {"x86_64": 7, "i386": 4, "aarch64": 31, "arm": 13}

# Of bpf/event_records.h.
PAGE = int(lib.STACK_PAGE)
WALKED_FRAMES = int(lib.WALKED_FRAMES)

# Of bpf/event_records.h.
UNWIND_RANGES = int(lib.UNWIND_RANGES)

# Of the fields of /proc/PID/stat, counted from 1; the second is the name.
START_STACK = 28

UserStack = tuple[tuple[int, ...], bytes, int]
"""Words of struct pt_regs, what was copied or found, and the pages as in struct event_stacks."""

# How a tracepoint's program is called, kernel/trace/bpf_trace.c (5.14 to 6.18).
TRACING = (
    "__bpf_get_",
    "bpf_get_",
    "bpf_prog_",
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "bpf_trampoline_",
)


class StackNamer:
    """Names a process's stacks, also when it has exited since."""

    def __init__(self, pid: int, plan: EventPlan) -> None:
        """Note the process's code, if stacks are to be taken."""
        self._mode = plan.stack_mode
        self._pid = pid
        self._start_stack = 0
        self._stack_bytes = plan.stack_bytes
        self._closing = ExitStack()
        if self._mode == "none":
            return
        _allow_many_files()
        self._image = self._closing.enter_context(ProcessImage(pid))
        self._space = AddressSpaceApart(self._image, source=plan.source)
        self._closing.callback(self._space.close)
        self._kernel = KernelSymbols()

    def nameless(self) -> str | None:
        """Return why kernel functions have no names, None if they have."""
        return None if self._mode == "none" else self._kernel.reason

    def close(self) -> None:
        """Give memory and files back."""
        self._closing.close()

    def note(self) -> list[tuple[int, int, bool]]:
        """Note what the process has mapped since, if it is still there.

        Returns of each mapping its start and end, and whether it is code, sorted.
        """
        if self._mode == "none":
            return []
        # Before the mappings: if it executes another program meanwhile these are not used for that.
        self._start_stack = start_stack(self._pid)
        self._image.note()
        self._space.note()
        return [(at.start, at.end, at.executable) for at in self._image.latest]

    def remarks(self) -> tuple[str, ...]:
        """Return what was passed over of the process's files since the last time."""
        return () if self._mode == "none" else self._image.bounds.take_remarks()

    def large_frames(self) -> tuple[list[LargeFrame], list[tuple[int, int]]]:
        """Return functions with large frames, and ranges of code, as LargeFrames takes them."""
        if self._mode not in COPYING:
            return [], []
        return self._space.large_frames(LARGE_FRAME, LARGE_FRAMES), self._space.code_ranges()

    def unwind_ranges(self) -> tuple[int, tuple[CodeRange, ...]]:
        """Return where the stack began and the process's code, as UnwindTables takes them."""
        return self._start_stack, self._space.unwind_ranges(UNWIND_RANGES)

    def is_full(self, stack: bytes) -> bool:
        """Whether the copy of a stack is as long as the plan lets it be."""
        return len(stack) >= self._stack_bytes + PAGE

    def kernel_frames(self, addresses: tuple[int, ...]) -> tuple[StackFrame, ...]:
        """Name a kernel stack, as bpf_get_stack() gives it."""
        frames = self._kernel.frames(Stack.of_return_addresses(addresses))
        if self._kernel.reason is None:
            frames = tuple(dropwhile(_is_tracing, frames))
        return tuple(stack_frame(frame) for frame in frames)

    def user_frames(
        self, taken: Sequence[UserStack]
    ) -> list[tuple[tuple[StackFrame, ...], StackEnd]]:
        """Name user stacks: unwind the copies, or take the addresses that they are.

        Returns also why each ends, as Stack does; a walk that ended too early may not be known
        for one.
        """
        copies = [place for place, stack in enumerate(taken) if self._is_copy(stack)]
        unwound = self._space.unwind([self._copy(taken[place]) for place in copies])
        stacks = [self._walked(stack) for stack in taken]
        for place, found in zip(copies, unwound, strict=True):
            stacks[place] = found
        named = zip(taken, stacks, self._space.frames(stacks), strict=True)
        return [
            (tuple(map(stack_frame, frames)), stack.end)
            if self._is_copy(each)
            else self._code(stack, frames)
            for each, stack, frames in named
        ]

    def _is_copy(self, stack: UserStack) -> bool:
        # libdwfl can't unwind by .ARM.exidx, and 32-bit code has nothing else.
        is_walked = self._mode == "fp" or (self._mode in WALKING and not stack[2])
        return not is_walked and self._space.machine != "arm"

    def _copy(self, stack: UserStack) -> Copy:
        saved, copied, pages = stack
        machine = self._space.machine
        registers = tuple(saved[place] for place in DWARF_REGISTERS[machine])
        sp = registers[STACK_POINTER[machine]]
        content, missing_pages = _unpacked(copied, pages)
        return registers, memoryview(content)[sp % PAGE :], sp, missing_pages

    def _walked(self, taken: UserStack) -> Stack:
        """The addresses that the kernel found, or else where the thread was."""
        saved, content, pages = taken
        instruction = (saved[DWARF_REGISTERS[self._space.machine][-1]],)
        if self._mode == "fp" or (self._mode in WALKING and not pages):
            walked = memoryview(content).cast("Q")
            return Stack.of_return_addresses(tuple(takewhile(bool, walked)) or instruction)
        return Stack(instruction, (True,), "lost")

    def _code(
        self, stack: Stack, frames: tuple[Frame, ...]
    ) -> tuple[tuple[StackFrame, ...], StackEnd]:
        """Cut a walk: without frame pointers it soon comes upon words that are no code."""
        code = tuple(takewhile(lambda frame: frame.object is not None, frames)) or frames[:1]
        end = stack.end
        if len(code) < len(frames):
            end = "short" if len(stack.pcs) > WALKED_FRAMES else "lost"
        return tuple(map(stack_frame, code)), end


def start_stack(pid: int) -> int:
    """Return where the process's stack began: proc_pid_stat(5), startstack; 0 if it has exited."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        # The first thread's memory is gone with it, while others may go on.
        with suppress(FileNotFoundError, ProcessLookupError):
            after_comm = stat.read_bytes().rpartition(b")")[2].split()
            if started := int(after_comm[START_STACK - 3]):
                return started
    return 0


def _allow_many_files() -> None:
    """Let as many files be open as may be: each of the process's libraries takes a few.

    The soft limit, often 1,024, is for programs that use select(2): setrlimit(2).
    """
    # A seccomp filter may forbid both: Python makes a ValueError of the second one's EPERM.
    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _unpacked(copied: bytes, pages: int) -> tuple[bytes | bytearray, int]:
    """Put the pages that were copied to their places; say which are missing between them."""
    if not pages & (pages + 1):
        return copied[: pages.bit_length() * PAGE], 0
    content, missing, at = bytearray(), 0, 0
    for page in range(pages.bit_length()):
        if pages >> page & 1:
            content += copied[at : at + PAGE]
            at += PAGE
        else:
            content += bytes(PAGE)
            missing |= 1 << page
    return content, missing


def _is_tracing(frame: Frame) -> bool:
    """Whether the frame is there only since the program runs in it."""
    return frame.name is None or frame.name.startswith(TRACING)


def stack_frame(frame: Frame) -> StackFrame:
    """Return a frame as it is reported."""
    return StackFrame(
        address=frame.address,
        name=frame.name,
        offset=frame.offset,
        object=frame.object,
        source=frame.source,
        inlined=frame.inlined,
    )
