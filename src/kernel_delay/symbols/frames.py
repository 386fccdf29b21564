"""What unwinding and naming yield: stacks of addresses, frames with names."""

from typing import Literal, Self

from msgspec import Struct

StackEnd = Literal["whole", "short", "lost"]


class Stack(Struct, frozen=True):
    """A thread's call chain, innermost first.

    `pcs[i]` is a return address unless `exact[i]`: then it is the instruction
    itself (the first frame, and functions a signal interrupted). `end` says
    why it ends: "whole", at the thread's outermost function; "short", the copy
    of the stack ended first; "lost", there was no way to find the caller (code
    without unwind information, a stack that changed while it was copied).
    """

    pcs: tuple[int, ...]
    exact: tuple[bool, ...]
    end: StackEnd

    @classmethod
    def of_return_addresses(cls, pcs: tuple[int, ...]) -> Self:
        """Make a stack of what the kernel's own walk gives (bpf_get_stack), user's or kernel's."""
        return cls(pcs, tuple(i == 0 for i in range(len(pcs))), "whole")


class Frame(Struct, frozen=True):
    """One function of a stack, named.

    `address` is the frame's pc. `name` is None where no symbol covers it;
    `offset` counts from the function, without a name from the object (its ELF
    address) and without an object is 0. `object` is the file's path, "[vdso]",
    "[anon]" for memory without a file such as a JIT compiler's, or None where
    nothing is mapped; " (replaced)" or " (deleted)" is appended when the path
    no longer names the mapped file and that can't be read. `source` is
    "file:line" when asked for and known. `inlined`: the compiler put this
    function into the next frame's, which has the same address.

    The texts come from other programs' files: escape them when printing.
    """

    address: int
    name: str | None
    offset: int
    object: str | None
    source: str | None = None
    inlined: bool = False
