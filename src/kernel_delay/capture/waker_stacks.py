"""Names the stacks that threads were woken from, of whatever process woke them."""

import mmap
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.syscall_events.stacks import StackNamer
from kernel_delay.capture.threads import WakerStack
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import StackFrame
from kernel_delay.symbols import start_parsers
from kernel_delay.symbols.demangle import Demangler

if TYPE_CHECKING:
    from kernel_delay.loader._records import WakerStack as WakerStackRecord

# Wakers of more processes than that have no names of their programs' functions.
MOST_PROCESSES = 16


class WakerStacks:
    """The struct waker_stacks that the programs write, each named once."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Read them from there."""
        self._stacks = ffi.from_buffer("struct waker_stack[]", memory)
        self._closing = ExitStack()
        self._namers: dict[int, StackNamer | None] = {}
        self._named: dict[int, WakerStack] = {}
        self._demangler = Demangler()
        # Later this process may not change its user.
        start_parsers()

    def close(self) -> None:
        """Give memory and files back."""
        self._closing.close()

    def name(self, place: int) -> WakerStack:
        """Return the functions of that place's stack, which is 1 for the first."""
        if place not in self._named:
            stack = self._stacks[place - 1]
            if not stack.written:
                return WakerStack()
            self._named[place] = self._name(stack)
        return self._named[place]

    def _name(self, stack: "WakerStackRecord") -> WakerStack:
        namer = self._namer(stack.process)
        if namer is None:
            return WakerStack()
        addresses = tuple(stack.stacks.kernel[at] for at in range(stack.stacks.kernel_frames))
        kernel = self._functions(namer.kernel_frames(addresses))
        if not stack.stacks.user_bytes:
            return WakerStack(kernel)
        registers = tuple(stack.stacks.registers[at] for at in range(lib.REGISTERS))
        content = bytes(ffi.buffer(stack.content, stack.stacks.user_bytes))
        pages = int.from_bytes(ffi.buffer(stack.stacks.pages), sys.byteorder)
        ((frames, _),) = namer.user_frames([(registers, content, pages)])
        return WakerStack(kernel, self._functions(frames))

    def _namer(self, pid: int) -> StackNamer | None:
        """What names the stacks of process `pid`; None if it is gone or one too many."""
        if pid not in self._namers and len(self._namers) < MOST_PROCESSES:
            self._namers[pid] = None
            with suppress(KernelDelayError, OSError):
                namer = StackNamer(pid, EventPlan(stack_bytes=int(lib.WAKER_STACK_BYTES)))
                self._closing.callback(namer.close)
                namer.note()
                self._namers[pid] = namer
        return self._namers.get(pid)

    def _functions(self, frames: tuple[StackFrame, ...]) -> tuple[str, ...]:
        plain = self._demangler.names({frame.name for frame in frames if frame.name})
        return tuple(plain.get(frame.name or "", _text(frame)) for frame in frames)


def _text(frame: StackFrame) -> str:
    if frame.name:
        return frame.name
    return f"{frame.object}+{frame.offset:#x}" if frame.object else f"{frame.address:#x}"
