"""Runs a command; prints what it read, and its peak memory, as JSON. Run as a program of its own.

The kernel counts to a child's peak what its parent had when it started it (fs/exec.c:
exec_mmap(), 6.18): so it is started by this small one.
"""

import json
import os
import re
import sys
from pathlib import Path


def main() -> int:
    """Run the command of sys.argv; return its exit status."""
    pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
    # What it read is there until it is reaped.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    counters = dict(re.findall(r"(\w+): (\d+)", Path(f"/proc/{pid}/io").read_text()))
    _, status, usage = os.wait4(pid, 0)
    found = {
        "calls of read": int(counters["syscr"]),
        "bytes read": int(counters["rchar"]),
        "peak memory, KiB": usage.ru_maxrss,
    }
    print(json.dumps(found), file=sys.stderr)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
