"""Hard and soft interrupts, one within the other: neither lost nor counted twice."""

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_delay.host.interrupts import IRQ_VECTORS
from kernel_delay.model import HardIrqStats
from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.workload import StartWorkload
from tests.integration.oracles import StartBpftrace, StartPerfStat

# Soft ones that ended on the thread's time, and hard ones that came within one.
SOFT_AND_NESTED = """
tracepoint:irq:softirq_entry /tid == TID/ { @in_soft = 1; }
tracepoint:irq:softirq_exit /tid == TID/ { @in_soft = 0; @soft[args->vec] = count(); }
tracepoint:irq:irq_handler_entry /tid == TID && @in_soft == 1/ { @nested = count(); }
"""


def has_handler(irq: HardIrqStats) -> bool:
    """Those of the kernel's own have none, and are not at the tracepoints of these."""
    return irq.name not in IRQ_VECTORS.values()


@contextmanager
def reading_from_disk(path: Path) -> Iterator[None]:
    """Read the file again and again, past the page cache, from another thread."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    done = threading.Event()

    def read() -> None:
        with mmap.mmap(-1, 4096) as buffer:
            while not done.is_set():
                os.preadv(descriptor, [buffer], 0)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join()
        os.close(descriptor)


def interrupts_by_cpu() -> list[int]:
    """How many interrupts each CPU has had of those that have a handler."""
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    numbered = [line.split()[1:] for line in lines if line.split(":")[0].strip().isdecimal()]
    return [sum(int(line[cpu]) for line in numbered) for cpu in range(len(head.split()))]


def cpu_of_the_disk() -> int:
    """The CPU that gets the most interrupts while the disk is read."""
    before = interrupts_by_cpu()
    with reading_from_disk(Path(__file__)):
        threading.Event().wait(0.2)
    grown = [now - then for now, then in zip(interrupts_by_cpu(), before, strict=True)]
    return grown.index(max(grown))


def test_nested_interrupts_are_each_counted_once(
    start_workload: StartWorkload,
    start_bpftrace: StartBpftrace,
    start_perf_stat: StartPerfStat,
    start_capture: StartCapture,
) -> None:
    try:
        cpu = cpu_of_the_disk()
    except OSError as error:
        pytest.skip(f"nothing here can be read past the page cache: {error}")
    workload = start_workload("packets", cpu, 1_000_000_000)
    bpftrace = start_bpftrace(SOFT_AND_NESTED.replace("TID", str(workload.pid)))
    # bpftrace does not see an interrupt that comes while a program of its own runs; perf does.
    perf = start_perf_stat(workload.pid, "irq:irq_handler_exit", "irq:softirq_exit")
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    with reading_from_disk(Path(__file__)):
        workload.ask()
        workload.parked()
    sample = capture.end()
    measured = thread(sample, workload.pid)

    soft_and_nested, exits = bpftrace.end(), perf.end()
    if not soft_and_nested.get("@nested"):
        pytest.skip("no hard interrupt came within a soft one")
    # Before 6.2 a program is kept from an interrupt while a thread's storage is looked up.
    missed = sample.lost.missed_events
    counted = {str(irq.vector): irq.count for irq in measured.soft_irqs}
    soft = soft_and_nested["@soft"]
    unseen_by_bpftrace = exits["irq:softirq_exit"] - sum(soft.values())
    for irq, count in counted.items():
        assert count <= soft.get(irq, 0) + unseen_by_bpftrace
    differences = [
        exits["irq:softirq_exit"] - sum(counted.values()),
        exits["irq:irq_handler_exit"]
        - sum(irq.count for irq in measured.hard_irqs if has_handler(irq)),
    ]
    assert min(differences) >= 0
    assert sum(differences) <= missed
    # Soft ones, with the hard ones within, are on the thread's time: not more than all of it.
    assert measured.run is not None
    assert sum(irq.total_ns for irq in measured.soft_irqs) < measured.run.total_ns
