"""The frames that elfutils finds in a copy of a stack, by a program of its own."""

import os
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.cache import built

SOURCE = Path(__file__).with_name("elfutils_frames.c")
MISSING_WORDS = 4
X86_64_REGISTERS = 17
# As in elfutils_frames.c.
COPY = struct.Struct(f"<{X86_64_REGISTERS + 2 + MISSING_WORDS}Q")
FOUND = struct.Struct("<II")


class Found(NamedTuple):
    """A stack's addresses, innermost first, and whether its outermost function is among them."""

    addresses: tuple[int, ...]
    whole: bool


class Elfutils:
    """libdwfl with the files of a process, of when this began."""

    def __init__(self, pid: int) -> None:
        """Start the program; close() ends it."""
        # Nothing is fetched from elsewhere.
        environment = {key: value for key, value in os.environ.items() if key != "DEBUGINFOD_URLS"}
        self._process = subprocess.Popen(
            [compiled(), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def find(
        self, registers: Sequence[int], stack: bytes | memoryview, base: int, missing_pages: int
    ) -> Found:
        """Unwind a copy; the arguments are those of AddressSpace.unwind()."""
        assert self._process.stdin
        assert self._process.stdout
        words = [missing_pages >> 64 * word & (1 << 64) - 1 for word in range(MISSING_WORDS)]
        self._process.stdin.write(COPY.pack(*registers, base, len(stack), *words))
        self._process.stdin.write(stack)
        self._process.stdin.flush()
        whole, count = FOUND.unpack(self._process.stdout.read(FOUND.size))
        addresses = struct.unpack(f"<{count}Q", self._process.stdout.read(8 * count))
        return Found(addresses, bool(whole))

    def close(self) -> None:
        """End the program."""
        self._process.communicate()


def compiled() -> Path:
    """The program, compiled if its source is new."""

    def make(folder: Path) -> None:
        command = ["cc", "-O2", str(SOURCE), "-ldw", "-o", str(folder / SOURCE.stem)]
        subprocess.run(command, check=True)

    return built(SOURCE.stem, make, SOURCE) / SOURCE.stem
