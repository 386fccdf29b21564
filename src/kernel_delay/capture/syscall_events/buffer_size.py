"""How large the buffer of the syscall events is, unless the user says so."""

import mmap
import os
from pathlib import Path

MEMINFO = Path("/proc/meminfo")

PER_CPU_BYTES = 16 << 20
"""A thousand stacks of four pages fit into its half; a CPU makes some 50,000 a second."""

SMALLEST_BYTES, LARGEST_BYTES = 4 << 20, 256 << 20

SHARE = 64
"""At most this part of the memory that is available is taken."""


def default_pages() -> int:
    """Return a size by this machine's CPUs and memory, in pages, a power of two."""
    return buffer_pages(os.cpu_count() or 1, available_bytes())


def buffer_pages(cpus: int, available: int) -> int:
    """Return the size for this number of CPUs and bytes of available memory."""
    size = min(cpus * PER_CPU_BYTES, available // SHARE, LARGEST_BYTES)
    pages = max(size, SMALLEST_BYTES) // mmap.PAGESIZE
    return 1 << pages.bit_length() - 1


def available_bytes() -> int:
    """Return how much memory can be had without swapping: MemAvailable, proc_meminfo(5)."""
    fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) << 10
