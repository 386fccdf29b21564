"""A program that stops a process for a fifth of each second: `halt.py PID SECONDS`.

With only the standard library.
"""

import os
import signal
import sys
import time
from pathlib import Path

STOPPED_S = 0.2
RUNNING_S = 0.8


def halt(pid: int, seconds: float) -> None:
    """Stops the process and has it go on, again and again; in the end it goes on."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    Path("/proc/self/comm").write_text("halt")
    deadline = time.monotonic() + seconds
    print("halting", flush=True)
    try:
        while time.monotonic() < deadline:
            time.sleep(RUNNING_S)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(pid, signal.SIGCONT)
    finally:
        os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    halt(int(sys.argv[1]), float(sys.argv[2]))
