"""The machine's CPUs, as the kernel numbers them."""

import os
from pathlib import Path

POSSIBLE = Path("/sys/devices/system/cpu/possible")


def cpu_numbers() -> int:
    """Return one more than the highest number that a CPU can have while this kernel runs.

    The file has ranges, the highest last (Documentation/admin-guide/cputopology.rst).
    """
    try:
        return int(POSSIBLE.read_text().replace(",", "-").split("-")[-1]) + 1
    except (OSError, ValueError):
        return os.cpu_count() or 1
