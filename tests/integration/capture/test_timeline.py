"""Timelines: the slices of a thread are what it did, in order, and add up to its account."""

import os
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import kernel_delay
from kernel_delay.analysis.timeline import INTERRUPTS, MODES, by_thread
from kernel_delay.model import Sample, Slice, Thread
from tests import commands
from tests.integration.capture.captures import StartCapture, calls, thread
from tests.integration.capture.workload import StartWorkload, Workload, known_syscall
from tests.perfetto_traces import drawn_on, read_trace, states_ns
from tests.timeline_accounts import account_of
from tests.workload import LASTS_NS

CPU = max(os.sched_getaffinity(0))

SHORT_NS = 200_000_000

TIMELINE = ("--timeline",)

MANY = 700_000


def measured(
    workload: Workload, start_capture: StartCapture, options: tuple[str, ...] = TIMELINE
) -> Sample:
    """The workload acts within a window."""
    capture = start_capture(workload.pid, options=options)
    capture.wait_until_open()
    workload.ask()
    workload.parked()
    return capture.end()


def slices_of(sample: Sample, tid: int) -> list[Slice]:
    assert sample.timeline is not None
    return [each for each in sample.timeline if each.tid == tid]


def is_known(measured: Thread) -> bool:
    """Whether no event of it was missed, as this machine's kernel may have a few be."""
    return measured.time is not None and not measured.time.unaccounted_ns


def states(slices: Iterable[Slice]) -> list[Slice]:
    return [each for each in slices if each.kind not in MODES | INTERRUPTS]


def modes(slices: Iterable[Slice]) -> list[Slice]:
    return [each for each in slices if each.kind in MODES]


def check(sample: Sample) -> None:
    """Each thread's slices are in order, states without a gap; and add up to its account."""
    assert sample.timeline is not None
    found = {tid: list(slices) for tid, slices in by_thread(sample.timeline)}
    assert len(found) == len(sample.threads)
    for each in filter(is_known, sample.threads):
        slices = found[each.tid]
        assert account_of(slices, sample.window) == each.time
        check_order(slices, sample)


def check_order(slices: Sequence[Slice], sample: Sample) -> None:
    starts = [(each.start_ns, -each.stop_ns) for each in slices]
    assert starts == sorted(starts)
    assert all(each.start_ns < each.stop_ns for each in slices)
    in_turn = states(slices)
    assert all(one.stop_ns == other.start_ns for one, other in pairwise(in_turn))
    assert (in_turn[0].start_ns, in_turn[-1].stop_ns) == (
        sample.window.start_ns,
        sample.window.stop_ns,
    )
    assert all(one.stop_ns <= other.start_ns for one, other in pairwise(modes(slices)))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("busy", (CPU, SHORT_NS, 1, 4)),
        ("calls", (f"{known_syscall('getppid')}=20000",)),
        ("sleeps", ("futex", 20, 2_000_000)),
        ("crowd", (20, 100)),
        ("locks", (20, 2_000_000)),
        ("maps", (CPU, SHORT_NS)),
    ],
)
def test_slices_of_each_thread_add_up_to_its_account(
    name: str,
    arguments: tuple[object, ...],
    start_workload: StartWorkload,
    start_capture: StartCapture,
) -> None:
    workload = start_workload(name, *arguments)
    sample = measured(workload, start_capture)
    lost = sample.lost
    assert (lost.timeline_interrupts, lost.timeline_states, lost.timeline_modes) == (0, 0, 0)
    if not any(each.threads > 1 for each in sample.threads):
        check(sample)


@pytest.mark.long
def test_so_do_those_of_a_trace_that_others_read(
    measurable: None, start_workload: StartWorkload, tmp_path: Path
) -> None:
    workload = start_workload("busy", CPU, LASTS_NS, 1, 4)
    workload.send()
    path, trace = tmp_path / "a.kdr", tmp_path / "a.trace"
    options = ("--sample-time", "0.1", *TIMELINE, "-o", path)
    assert commands.run("capture", "-p", workload.pid, *options).returncode == 0
    assert commands.run("report", "--perfetto", trace, path).returncode == 0
    found = drawn_on(read_trace(trace))
    (sample,) = kernel_delay.open_recording(path)
    for each in filter(is_known, sample.threads):
        assert each.time is not None
        its = states_ns(found[f"{each.tid} state"])
        assert sum(its.values()) == sample.window.duration_ns
        assert its.get("blocked", 0) == each.time.blocked_ns
        assert its.get("runnable", 0) == each.time.ready_ns


@pytest.mark.parametrize("interval", ["0", pytest.param("0.02", marks=pytest.mark.long)])
def test_so_do_those_of_windows_that_follow_each_other(
    interval: str, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("busy", CPU, LASTS_NS, 1, 4)
    workload.send()
    options = ("--sample-count", "10", "--sample-interval", interval, *TIMELINE)
    samples = start_capture(workload.pid, "0.03", options).samples()
    assert len(samples) == 10
    for sample in samples:
        check(sample)


@pytest.mark.long
def test_interrupt_across_a_window_edge_is_in_both_windows(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    """Its part of the first is charged by what is told when it ends, in the second."""
    workload = start_workload("filtered", CPU, LASTS_NS, 120, within=("nice", "-n", "-10"))
    workload.send()
    options = ("--sample-count", "40", "--sample-interval", "0", *TIMELINE)
    samples = start_capture(workload.pid, "0.01", options).samples()
    for sample in samples:
        check(sample)
    soft_irqs = [
        (each, sample.window)
        for sample in samples
        for each in slices_of(sample, workload.pid)
        if each.kind == "soft_irq"
    ]
    across = [each for each, window in soft_irqs if each.stop_ns == window.stop_ns]
    # Of one packet's time most is that, while it has a CPU and no kernel thread takes them over. If
    # a third of all time is, none of 40 ends in one once in ten million times.
    all_ns = sum(sample.window.duration_ns for sample in samples)
    in_one_ns = sum(each.stop_ns - each.start_ns for each, _ in soft_irqs)
    assert across or in_one_ns < all_ns / 3


@pytest.mark.long
def test_hard_irq_at_the_edge_of_a_soft_one(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    """One of some 300,000 has one between the clock and what notes its start or its end."""
    workload = start_workload("filtered", CPU, LASTS_NS, 0)
    workload.send()
    options = ("--sample-count", "10", "--sample-interval", "0", *TIMELINE)
    for sample in start_capture(workload.pid, "0.3", options).samples():
        assert sample.lost.timeline_interrupts == 0
        check(sample)


def test_each_call_is_a_slice(start_workload: StartWorkload, start_capture: StartCapture) -> None:
    number = known_syscall("getppid")
    workload = start_workload("calls", f"{number}=1000")
    sample = measured(workload, start_capture)
    its = thread(sample, workload.pid)
    made = [each for each in slices_of(sample, workload.pid) if each.name == "getppid"]
    assert len(made) == calls(its)[number] == 1000
    (stats,) = (call for call in its.syscalls if call.number == number)
    assert sum(each.stop_ns - each.start_ns for each in made) == stats.total_ns
    assert max(each.stop_ns - each.start_ns for each in made) == stats.max_ns
    assert {each.kind for each in made} == {"call"}


def switches(pid: int) -> int:
    """How often the thread left its CPU, by the kernel's own count (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])


def test_so_is_each_run_on_a_cpu(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("sleeps", "nanosleep", 200, 500_000)
    workload.parked()
    before = switches(workload.pid)
    sample = measured(workload, start_capture)
    # It sleeps before the window and after it; a sleep that is over before the thread has left
    # its CPU is no switch.
    counted = switches(workload.pid) - before
    ran = [each for each in slices_of(sample, workload.pid) if each.kind == "running"]
    assert counted > 0
    assert counted - 2 * sample.lost.missed_events <= len(ran) <= counted


def test_so_is_each_page_fault(start_workload: StartWorkload, start_capture: StartCapture) -> None:
    workload = start_workload("faults", CPU, "small", 200, 0)
    sample = measured(workload, start_capture)
    its = thread(sample, workload.pid)
    if its.page_faults is None:
        pytest.skip("this kernel takes no fentry program, so page faults are not counted")
    faults = [each for each in slices_of(sample, workload.pid) if each.kind == "fault"]
    # One under way at a boundary is a slice, and not counted.
    assert 200 <= its.page_faults.count <= len(faults) <= its.page_faults.count + 1
    if is_known(its):
        check(sample)


@pytest.mark.usefixtures("earlier_calls")
def test_a_wait_says_what_it_is_for(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("waits", "pipe", 10, 5_000_000)
    sample = measured(workload, start_capture)
    slices = slices_of(sample, workload.pid)
    waits = [each for each in slices if each.kind == "blocked" and each.name == "pipe"]
    reads = [each for each in modes(slices) if each.name == "read"]
    assert waits
    its = thread(sample, workload.pid)
    assert len(waits) == sum(sleep.count for sleep in its.sleeps if sleep.reason == "pipe")
    for wait in waits:
        assert any(
            read.start_ns <= wait.start_ns and wait.stop_ns <= read.stop_ns for read in reads
        )


def test_a_thread_that_runs_throughout_is_on_a_cpu(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    workload.send()
    # Long enough for a tick, where the CPU has any.
    sample = start_capture(workload.pid, "0.5", TIMELINE).sample()
    ran = [each for each in slices_of(sample, workload.pid) if each.kind == "running"]
    assert {each.cpu for each in ran} == {CPU}


def test_with_little_room_calls_are_kept_longest(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    number = known_syscall("getppid")
    workload = start_workload("calls", f"{number}=5000")
    sample = measured(workload, start_capture, (*TIMELINE, "--max-slices", "2000"))
    slices = slices_of(sample, workload.pid)
    kinds = Counter(each.kind for each in slices)
    # None is left out that would be counted nowhere.
    assert calls(thread(sample, workload.pid))[number] == 5000
    assert 1900 <= kinds["call"] <= 2001
    assert kinds["call"] + sample.lost.timeline_modes >= 5000
    assert sample.lost.timeline_states
    assert kinds["lost_states"]
    assert kinds["lost_modes"]
    assert not kinds["running"]
    its = thread(sample, workload.pid).time
    assert its is not None
    found = account_of(slices, sample.window)
    assert found.unaccounted_ns > its.unaccounted_ns
    assert sum(getattr(found, name) for name in found.__struct_fields__) == (
        sample.window.duration_ns
    )


def test_what_finds_no_room_is_counted(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    number = known_syscall("getppid")
    # Of one CPU's ring, which has room for half a million at most.
    within = ("taskset", "-c", str(CPU))
    workload = start_workload("calls", f"{number}={MANY}", within=within)
    capture = start_capture(workload.pid, options=TIMELINE)
    capture.wait_until_open()
    # What is not read stays in the rings.
    os.kill(capture.pid, signal.SIGSTOP)
    workload.ask()
    workload.parked()
    os.kill(capture.pid, signal.SIGCONT)
    sample = capture.end()
    its = thread(sample, workload.pid)
    assert calls(its)[number] == MANY
    assert sample.lost.timeline_modes
    assert sample.timeline is not None
    reported = sum(1 for each in sample.timeline if each.name == "getppid")
    others = sum(calls(its).values()) - MANY
    assert MANY <= reported + sample.lost.timeline_modes <= MANY + others + 1


def test_it_is_there_from_python(
    measurable: None, start_workload: StartWorkload, tmp_path: Path
) -> None:
    workload = start_workload("busy", CPU, LASTS_NS, 1, 4)
    workload.send()
    path = tmp_path / "a.kdr"
    recording = kernel_delay.record(path, workload.pid, seconds=0.05, samples=2, timeline=True)
    for sample in recording:
        check(sample)
