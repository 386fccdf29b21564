"""A program that spins: `spin.py CPU SECONDS`, with only the standard library."""

import os
import sys
import time
from pathlib import Path


def spin(cpu: int, seconds: float) -> None:
    """Runs on `cpu` alone, called `spin` and without ever sleeping, for `seconds`."""
    os.sched_setaffinity(0, {cpu})
    Path("/proc/self/comm").write_text("spin")
    deadline = time.monotonic() + seconds
    print("spinning", flush=True)
    while time.monotonic() < deadline:
        pass


if __name__ == "__main__":
    spin(int(sys.argv[1]), float(sys.argv[2]))
