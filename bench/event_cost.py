"""What an event, and its stacks, add to the system call: ns of CPU time, as a table.

A call that does next to nothing is made in bursts, so that the buffer has
room for each. The time is the thread's own, its median over many bursts:
bench/event_cost.py
"""

import statistics
import subprocess
import tempfile
from pathlib import Path

from msgspec import structs

from kernel_delay.capture.plan import EventPlan, WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.model import Sample
from kernel_delay.syscalls import syscall_number
from kernel_delay.target import find_target

SECONDS = 4
BUFFER_PAGES = 16384
STACKS_KIB = (0, 12, 80)


def main() -> None:
    """Measure, and print the table."""
    number = syscall_number("getppid")
    assert number is not None
    # A machine that is busy with other things drains the buffer late.
    events = EventPlan(syscalls=frozenset({number}), buffer_pages=BUFFER_PAGES)
    plans: dict[str, EventPlan | None] = {
        "tables alone": None,
        "-s --stack-mode none": structs.replace(events, stack_mode="none"),
        "-s --stack-mode fp": structs.replace(events, stack_mode="fp"),
        "-s --stack-mode dwarf": events,
    }
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "bursts"
        source = Path(__file__).with_name("bursts.c")
        subprocess.run(["cc", "-O2", source, "-o", program], check=True)
        print(f"{'ns a call':24}" + "".join(f"{kib:>8} KiB" for kib in STACKS_KIB))
        for name, plan in plans.items():
            added = [cost(program, kib, plan) for kib in STACKS_KIB]
            print(f"{name:24}" + "".join(f"{ns:12.0f}" for ns in added))


def cost(program: Path, kib: int, plan: EventPlan | None) -> float:
    """How much longer a call takes while it is measured."""
    pipe = subprocess.PIPE
    with subprocess.Popen([program, str(kib)], stdout=pipe, text=True) as process:
        try:
            assert process.stdout
            before = [int(process.stdout.readline()) for _ in range(100)]
            sample = measured(process.pid, plan)
            if sample.lost.stacks:
                print(f"{sample.lost.stacks} stacks found no room: the next figure is too low")
            process.kill()
            while_measured = [int(line) for line in process.stdout]
        finally:
            process.kill()
    # The first and the last may be from outside the window.
    during = while_measured[len(while_measured) // 4 : -len(while_measured) // 8]
    return statistics.median(during) - statistics.median(before)


def measured(pid: int, plan: EventPlan | None) -> Sample:
    """Measure the process in one window."""
    windows = WindowPlan(sample_time_ns=SECONDS * 1_000_000_000)
    with Session(find_target(pid), windows, SessionOptions(events=plan)) as session:
        (sample,) = session.samples()
    return sample


if __name__ == "__main__":
    main()
