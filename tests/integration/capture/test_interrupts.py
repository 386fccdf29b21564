"""Hard and soft interrupts, one within the other: neither lost nor counted twice."""

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel_delay.host.kernel_names import IRQ_VECTORS
from kernel_delay.model import HardIrqStats
from tests.integration.capture.captures import StartCapture, thread
from tests.integration.capture.workload import StartWorkload
from tests.integration.oracles import StartBpftrace, StartPerfStat

# What the hard ones came into. Not at the tracepoints that perf counts: where bpftrace misses a
# hit, perf does not see it either (kernel/trace/bpf_trace.c: trace_call_bpf(), 6.18).
INTERRUPTED = "tracepoint:irq:irq_handler_entry /tid == TID/ { @stacks[kstack] = count(); }"


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


def soft_irqs_of(cpu: int) -> dict[str, int]:
    """How many of each kind that CPU has served, as the kernel counts them."""
    _, *lines = Path("/proc/softirqs").read_text().splitlines()
    fields = [line.split() for line in lines]
    return {name.rstrip(":").lower(): int(counts[cpu]) for name, *counts in fields}


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
    bpftrace = start_bpftrace(INTERRUPTED.replace("TID", str(workload.pid)))
    perf = start_perf_stat(workload.pid, "irq:irq_handler_exit", "irq:softirq_exit")
    before = soft_irqs_of(cpu)
    capture = start_capture(workload.pid)
    capture.wait_until_open()

    with reading_from_disk(Path(__file__)):
        workload.ask()
        workload.parked()
    sample = capture.end()
    measured = thread(sample, workload.pid)

    stacks, exits = bpftrace.end().get("@stacks", {}), perf.end()
    of_the_cpu = soft_irqs_of(cpu)
    if not any("softirqs+" in stack or "do_softirq+" in stack for stack in stacks):
        pytest.skip("no hard interrupt came within a soft one")
    # Before 6.2 a program is kept from an interrupt while a thread's storage is looked up.
    missed = sample.lost.missed_events
    for irq in measured.soft_irqs:
        assert irq.count <= of_the_cpu[irq.name or ""] - before[irq.name or ""]
    differences = [
        exits["irq:softirq_exit"] - sum(irq.count for irq in measured.soft_irqs),
        exits["irq:irq_handler_exit"]
        - sum(irq.count for irq in measured.hard_irqs if has_handler(irq)),
    ]
    assert min(differences) >= 0, differences
    assert sum(differences) <= missed, differences
    # Soft ones, with the hard ones within, are on the thread's time: not more than all of it.
    assert measured.run is not None
    assert sum(irq.total_ns for irq in measured.soft_irqs) < measured.run.total_ns
