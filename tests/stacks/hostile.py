"""What hostile .eh_frame costs: the fuzzer's files, as if a process had mapped them.

They are parsed as the tool parses a process's files, by another process. Who holds that up is given
up, and only names and ends of stacks are lost. Its memory has a limit, MEMORY_BYTES of
symbols/parser.py: test_hostile_files_cost_names_alone in test_apart.py goes beyond.
"""

import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from kernel_delay.capture.syscall_events.user_stacks import LARGE_FRAME, LARGE_FRAMES
from kernel_delay.loader._records import lib
from kernel_delay.symbols import AddressSpaceApart
from kernel_delay.symbols.bounds import ANSWER_S, Bounds
from tests.fuzz.run import BUILD, SEEDS
from tests.integration.symbols import mapped

TARGET = "unwind_object"

# As in tests/fuzz/unwind.c.
BIAS, STACK = 0x7F00_0000_0000, 0x7FFD_0000_0000
REGISTERS = struct.Struct("<17Q")
RSP, RIP = 7, 16
CODE_BYTES, STACK_BYTES = 1 << 14, 1 << 12

MOST_S = 3 * ANSWER_S
"""For one file: a stack, its large frames and its rows, each as long as an answer may take."""


class Hostile(NamedTuple):
    """How many files there were, of how many functions have no names, and the slowest's time."""

    files: int
    given_up: int
    slowest_s: float

    @property
    def bounded(self) -> bool:
        """Whether none took longer than it may."""
        return self.slowest_s <= MOST_S


def unwind() -> Hostile:
    """Unwind in the seeds, and in what `make fuzz` has found."""
    files = [*(SEEDS / TARGET).iterdir(), *(BUILD / "corpus" / TARGET).glob("*")]
    found = [cost(file) for file in files]
    taken = [each for each in found if each is not None]
    return Hostile(len(taken), sum(lost for _, lost in taken), max(time for time, _ in taken))


def cost(file: Path) -> tuple[float, bool] | None:
    """Return how long a file takes, in s, and whether it was given up; None if it has no code."""
    content = file.read_bytes()
    registers = list(REGISTERS.unpack(content[: REGISTERS.size].ljust(REGISTERS.size, b"\0")))
    registers[RSP] = STACK + registers[RSP] % STACK_BYTES
    registers[RIP] = BIAS + registers[RIP] % CODE_BYTES
    try:
        found = mapped.object_of(file, BIAS, "/hostile")
    except (AssertionError, StopIteration):
        return None
    bounds = Bounds()
    began = time.monotonic()
    space = AddressSpaceApart(mapped.image_of(found, bounds=bounds))
    try:
        stack = content[: len(content) // 8 * 8]
        space.frames(space.unwind([(tuple(registers), stack, STACK, 0)]))
        space.large_frames(LARGE_FRAME, LARGE_FRAMES)
        space.unwind_ranges(int(lib.UNWIND_RANGES))
    finally:
        space.close()
        os.close(found.fd)
    remarks = bounds.take_remarks()
    return time.monotonic() - began, any("have no names" in remark for remark in remarks)
