"""Which functions of the process have large frames: the programs leave these out."""

import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernel_delay.loader._records import ffi, lib

if TYPE_CHECKING:
    from kernel_delay.symbols import LargeFrame

LARGE_FRAME = int(lib.LARGE_FRAME)
"""Bytes that a frame must have to be one."""

LARGE_FRAMES = int(lib.LARGE_FRAMES)

FILTER_BITS = 64 * int(lib.FRAME_FILTER_WORDS)


class LargeFrames:
    """The struct large_frames that the programs read."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Write to `memory`, which is shared with the programs."""
        self._table = ffi.from_buffer("struct large_frames *", memory)
        self._written: tuple[list[LargeFrame], list[tuple[int, int]]] = ([], [])

    def write(self, frames: "Sequence[LargeFrame]", code: Sequence[tuple[int, int]]) -> None:
        """Pass them these frames and these ranges of code; both sorted.

        Where there are more ranges than there is room for none are passed: then
        stacks are copied whole.
        """
        reported = (list(frames), list(code)) if len(code) <= lib.CODE_RANGES else ([], [])
        if reported == self._written:
            return
        self._table.frame_count = self._table.code_count = 0
        # A program that began before may still look at what is there.
        lib.wait_for_programs()
        self._write(*reported)
        self._written = reported

    def _write(self, frames: "list[LargeFrame]", code: list[tuple[int, int]]) -> None:
        bits = 0
        for start, end, _, _ in frames:
            first, last = start // lib.STACK_PAGE, end // lib.STACK_PAGE
            for page in range(first, min(last, first + FILTER_BITS) + 1):
                bits |= 1 << page % FILTER_BITS
        for word in range(lib.FRAME_FILTER_WORDS):
            self._table.filter[word] = bits >> 64 * word & (1 << 64) - 1
        self._table.frames[0 : len(frames)] = frames
        self._table.code[0 : len(code)] = code
        self._table.code_count = len(code)
        lib.wait_for_programs()
        self._table.frame_count = len(frames)
