"""The first process of the guest: has kernel-delay measure programs, and prints what it said."""

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE

from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.windows import LONGEST_LEAD_NS
from kernel_delay.host.syscalls import syscalls
from kernel_delay.host.target import find_target
from kernel_delay.reporters.json import render

FILE_SYSTEMS = {
    "/proc": "proc",
    "/sys": "sysfs",
    "/dev": "devtmpfs",
    "/tmp": "tmpfs",
    "/sys/kernel/tracing": "tracefs",
    "/sys/fs/cgroup": "cgroup2",
}
LIMIT_S = 600.0

# include/uapi/linux/reboot.h
RB_POWER_OFF = 0x4321FEDC

READS_STDIN = ["63", "0x0"]

CHAINS = ("recursion", "alloca", "library", "signal", "fault", "thread")

# Calls of a known number between two sleeps.
CALLING = """
import os, time
while True:
    for _ in range(100):
        os.getppid()
    time.sleep(0.05)
"""

# Of ten rounds one is long: it computes for half a second.
POLLING = """
import select, time
poll = select.poll()
while True:
    for _ in range(9):
        poll.poll(20)
    poll.poll(20)
    end = time.thread_time() + 0.5
    while time.thread_time() < end:
        pass
"""


def tell(name: str, what: object) -> None:
    """A line on the console, which no other may cut in two."""
    print(f"RESULT {json.dumps([name, what])}", flush=True)


def kernel_delay(name: str, *arguments: object, line: str = "") -> None:
    """Run it, with a line for who reads it, and tell what it printed and how it ended."""
    start = time.monotonic()
    command = ["kernel-delay", *map(str, arguments)]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=LIMIT_S)
    took_s = round(time.monotonic() - start)
    what = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    tell(name, {**what, "took_s": took_s})


def samples(name: str, *arguments: object, line: str = "") -> None:
    """The same, and then tell the samples, which are lines of JSON."""
    file = Path("/tmp", name)
    kernel_delay(f"{name}: text", *arguments[:1], "--json", file, *arguments[1:], line=line)
    tell(name, [json.loads(line) for line in file.read_text().splitlines()])


def call_chain(chain: str) -> object:
    """A sample of the call that ends it, with its stacks."""
    with subprocess.Popen(["/guest/call_chain", chain], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin
        assert process.stdout
        tid = process.stdout.readline().decode().strip()
        while Path(f"/proc/{tid}/syscall").read_text().split()[:2] != READS_STDIN:
            time.sleep(0.01)
        go_on = threading.Timer(2 * LONGEST_LEAD_NS / 1e9, process.stdin.close)
        events = EventPlan(syscalls=frozenset(syscalls("getppid")))
        options = SessionOptions(events=events, on_open=lambda epoch: go_on.start())
        plan = WindowPlan(sample_time_ns=int(LIMIT_S * 1e9))
        with Session(find_target(process.pid), plan, options) as session:
            (sample,) = session.samples()
    return json.loads(render(sample))


def measure() -> None:
    """All that the test asks for."""
    tell("kernel", " ".join(os.uname()))
    kernel_delay("version", "--version")
    kernel_delay("check", "check")
    kernel_delay("elsewhere", "report", "--json", "/guest/elsewhere.kdr")
    samples("counted", "capture", "--", "/guest/counted_calls", line="\n")
    for chain in CHAINS:
        tell(chain, call_chain(chain))
    with subprocess.Popen([sys.executable, "-c", CALLING]) as calling:
        only = ("-s", "0", "--syscall-filter", "clock_nanosleep")
        samples("calling", "capture", "--pid", calling.pid, "--sample-time", "5", *only)
        calling.kill()
    with subprocess.Popen([sys.executable, "-c", POLLING]) as polling:
        until = ("--threshold", "0.4", "--time", "10")
        samples("watch", "watch", "--pid", polling.pid, *until)
        polling.kill()


def main() -> None:
    """Set the machine up, measure, and switch it off."""
    libc = ctypes.CDLL(None, use_errno=True)
    for place, kind in FILE_SYSTEMS.items():
        if libc.mount(kind.encode(), place.encode(), kind.encode(), 0, None):
            raise OSError(ctypes.get_errno(), f"can't mount {place}")
    os.environ.update(PATH="/usr/local/bin:/usr/bin", LANG="C.UTF-8")
    measure()
    libc.reboot(RB_POWER_OFF)


if __name__ == "__main__":
    main()
