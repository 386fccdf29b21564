"""The stacks of a Perfetto trace: each function, frame and stack is in it once."""

from collections.abc import Hashable

from kernel_delay.model import StackFrame
from kernel_delay.reporters.syscall_events import frame_text
from kernel_delay.reporters.trace_packets import (
    TextKind,
    interned_frame,
    interned_mapping,
    interned_stack,
    interned_text,
    said_of_stacks,
)

Frames = tuple[StackFrame, ...]

# What of a stack is to be read with each call: the innermost functions show it.
MOST_STACK_CHARACTERS = 1000


class TraceStacks:
    """Gives stacks, and what they are made of, numbers in a trace."""

    def __init__(self) -> None:
        """Have given none."""
        self._numbers: dict[Hashable, int] = {}
        self._new: list[bytes] = []

    def __len__(self) -> int:
        """Return how many numbers were given."""
        return len(self._numbers)

    def of_event(self, kernel: Frames | None, user: Frames | None) -> bytes:
        """Return what an event says of its stacks, once take_new() is in the trace."""
        if not kernel and not user:
            return b""
        texts = [
            (self._text("annotation", name), self._text("stack", _shown(frames)))
            for name, frames in (("kernel stack", kernel), ("user stack", user))
            if frames
        ]
        return said_of_stacks(self._stack((*(kernel or ()), *(user or ()))), texts)

    def take_new(self) -> list[bytes]:
        """Return the packets that say what the numbers stand for that were given since."""
        new, self._new = self._new, []
        return new

    def _stack(self, frames: Frames) -> int:
        """Number a stack. Perfetto has the outermost function first."""
        numbers = tuple(self._frame(frame) for frame in reversed(frames))
        number, is_new = self._number(numbers)
        if is_new:
            self._new.append(interned_stack(number, numbers))
        return number

    def _frame(self, frame: StackFrame) -> int:
        number, is_new = self._number((frame.address, frame.name, frame.object))
        if is_new:
            function = self._text("function", frame.name or f"{frame.address:#x}")
            mapping = self._mapping(frame.object or "unknown")
            self._new.append(interned_frame(number, function, mapping, frame.address))
        return number

    def _mapping(self, path: str) -> int:
        number, is_new = self._number(("mapping", path))
        if is_new:
            self._new.append(interned_mapping(number, self._text("path", path.lstrip("/"))))
        return number

    def _text(self, kind: TextKind, text: str) -> int:
        number, is_new = self._number((kind, text))
        if is_new:
            self._new.append(interned_text(number, kind, text))
        return number

    def _number(self, key: Hashable) -> tuple[int, bool]:
        """Return the number of what `key` stands for, and whether it was given now."""
        before = len(self._numbers)
        number = self._numbers.setdefault(key, before + 1)
        return number, len(self._numbers) > before


def _shown(frames: Frames) -> str:
    return "\n".join(map(frame_text, frames))[:MOST_STACK_CHARACTERS]
