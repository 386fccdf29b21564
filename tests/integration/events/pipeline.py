"""Capture a process's events without printing them: pipeline.py PID SECONDS OPTIONS.

OPTIONS are JSON, fields of an EventPlan. Prints as JSON what came out, what it
took, and how the drain thread got on. A program of its own, for its memory.
"""

import json
import mmap
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.capture.syscall_events.user_stacks import default_pages
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample


def main(pid: int, seconds: float, options: dict[str, Any]) -> None:
    plan = WindowPlan(sample_time_ns=int(seconds * 1e9))
    before_kib = peak_kib()
    with Session(find_target(pid), plan, SessionOptions(EventPlan(**options))) as session:
        samples = iter(session.samples())
        cpu_ns, stolen_ns = time.process_time_ns(), steal_ns()
        sample = next(samples)
        report = {
            "late_ns": time.monotonic_ns() - sample.window.stop_ns,
            "cpu_ns": time.process_time_ns() - cpu_ns,
            "grown_kib": peak_kib() - before_kib - mapped_kib(EventPlan(**options)),
            "drainer_waited_ns": drainer_waited_ns(),
            "stolen_ns": steal_ns() - stolen_ns,
        }
    print(json.dumps(report | summary(sample)))


def summary(sample: Sample) -> dict[str, Any]:
    events = sample.syscall_events or ()
    lengths = [event.exit_ns - event.entry_ns for event in events]
    lost = sample.lost
    return {
        "window_ns": sample.window.stop_ns - sample.window.start_ns,
        "counted": sum(call.count for thread in sample.threads for call in thread.syscalls),
        "max_ns": max((c.max_ns for thread in sample.threads for c in thread.syscalls), default=0),
        "kept": len(lengths),
        "longest_ns": max(lengths, default=0),
        "with_user_stack": sum(event.user_stack is not None for event in events),
        "with_kernel_stack": sum(event.kernel_stack is not None for event in events),
        "stacks": len(sample.stacks),
        "depths": len(
            Counter(sum(at.name == "call_below" for at in stack) for stack in sample.stacks)
        ),
        "lost": {"events": lost.events, "shorter": lost.shorter_events, "stacks": lost.stacks},
    }


def peak_kib() -> int:
    """The most memory that this program had; ru_maxrss would be that of the one that began it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def mapped_kib(plan: EventPlan) -> int:
    """The buffer, whose pages are mapped twice, one after the other."""
    return 2 * (plan.buffer_pages or default_pages()) * mmap.PAGESIZE // 1024


def drainer_waited_ns() -> int:
    """How long threads other than this one could run and did not: there is the drain thread."""
    others = {path.name for path in Path("/proc/self/task").iterdir()} - {str(os.getpid())}
    # Documentation/scheduler/sched-stats.rst (6.18): time on the CPU, time waiting for one.
    statistics = [Path(f"/proc/self/task/{tid}/schedstat").read_text() for tid in others]
    return sum(int(text.split()[1]) for text in statistics)


def steal_ns() -> int:
    """What the hypervisor kept the CPUs for itself, from /proc/stat; in steps of a clock tick."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3]))
