"""A system call of one process made slower, within the kernel, by a known time."""

import ctypes
import mmap
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_delay.loader.namespace import find_process
from kernel_delay.loader.programs import BpfObject

SOURCE = Path(__file__).with_name("delay.bpf.c")
ARCH = {"x86_64": "x86", "aarch64": "arm64"}


def compile_delay(folder: Path) -> Path:
    """Compile the program into a folder."""
    compiled = folder / "delay.bpf.o"
    machine = os.uname().machine
    # As in src/kernel_delay/bpf/meson.build.
    flags = ["-O2", "-g", f"-D__TARGET_ARCH_{ARCH[machine]}", f"-I/usr/include/{machine}-linux-gnu"]
    command = ["clang", "--target=bpf", *flags, "-c", str(SOURCE), "-o", str(compiled)]
    subprocess.run(command, check=True)
    return compiled


class Delay:
    """By how much each call is longer from now on; at first by what it takes to look alone."""

    def __init__(self, memory: mmap.mmap) -> None:
        """Take the memory that the program reads it from."""
        self._memory = memory

    def set(self, delay_ns: int) -> None:
        """Set it."""
        self._memory[:8] = struct.pack("Q", delay_ns)


@contextmanager
def delayed(compiled: Path, pid: int, number: int) -> Iterator[Delay]:
    """Within the `with` each call of that number of the process's can be made longer."""
    with BpfObject(compiled) as delay:
        values = struct.pack("II", find_process(pid).tgid, number)
        ctypes.memmove(delay.map(".rodata.options").initial_values(), values, len(values))
        delay.load()
        link = delay.program("delay").attach()
        try:
            with delay.map(".bss.delay").mmap(writable=True) as memory:
                yield Delay(memory)
        finally:
            link.close()
