"""What is said of the time after an event that the programs were not run on: that it is unknown."""

import datetime
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest
from msgspec.structs import astuple

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture import program_names, program_options
from kernel_delay.capture.map_sizes import MOST_HALVINGS, ring_entries
from kernel_delay.capture.plan import Plan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.threads.collector import Collector
from kernel_delay.capture.windows import Windows
from kernel_delay.loader._records import ffi, lib
from kernel_delay.loader.maps import Map
from kernel_delay.loader.programs import Link, Program
from kernel_delay.model import Sample, SyscallStats, Target, Untraced, Window
from tests.emulation import is_emulated
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.capture.test_thread_times import (
    check_calls,
    cpu_time_ns,
    in_calls_ns,
    running_ns,
    time_of,
)
from tests.integration.capture.test_timeline import switches
from tests.integration.capture.workload import StartWorkload, Workload
from tests.needs import make_real_time
from tests.system_calls import syscall_number
from tests.workload import LASTS_NS, wait_until

pytestmark = pytest.mark.usefixtures("measurable")

MS = 1_000_000


class Holed(Programs):
    """Programs that can be kept from seeing events for a while."""

    def __init__(self, pids: Sequence[int], plan: Plan) -> None:
        self.links: dict[str, Link] = {}

        attach = Program.attach

        def note(program: Program) -> Link:
            self.links[program.name] = link = attach(program)
            return link

        with pytest.MonkeyPatch.context() as patching:
            patching.setattr(Program, "attach", note)
            super().__init__(pids, plan)

    @property
    def threads(self) -> Map:
        """What they know of each thread."""
        return self._object.map("threads")

    @contextmanager
    def blind(self, *names: str) -> Iterator[None]:
        """Within the `with` the programs of these names are not run, nor are their fallbacks."""
        attached = [each for name in names for each in self._attached(name)]
        for each in attached:
            self.links[each].close()
        yield
        for each in attached:
            self.links[each] = link = self._object.program(each).attach()
            self._closing.callback(link.close)

    def _attached(self, name: str) -> list[str]:
        """What is attached in place of a program: where it can be preempted, two."""
        program = name if name in self.links else program_names.preemptible(name)
        fallback = program_names.FALLBACKS.get(program, "")
        return [program, fallback] if fallback in self.links else [program]


class Measured:
    """A window on a process, from construction to end()."""

    def __init__(self, pid: int, closing: ExitStack) -> None:
        plan = Plan(WindowPlan(sample_time_ns=LASTS_NS))
        self.programs = closing.enter_context(Holed((pid,), plan))
        self._windows = Windows(self.programs.control, lambda: None)
        self._collector = Collector(self.programs)
        self._epoch = self._windows.open(LASTS_NS)

    def end(self, then: Callable[[], None] | None = None) -> Sample:
        """End it about now; before it is read have another begin, and do something in that."""
        self._windows.end(self._epoch)
        start_ns, stop_ns = self._windows.boundaries(self._epoch)
        time.sleep(max(0, stop_ns - time.monotonic_ns()) / 1e9 + 0.001)
        if then is not None:
            self._windows.open(LASTS_NS)
            then()
        threads = self._collector.collect(self._epoch, start_ns, stop_ns)
        now = datetime.datetime.now(datetime.UTC)
        window = Window(start_ns, stop_ns, stop_ns - start_ns, now, now, "time")
        target = Target(1, "target", None)
        lost = self._collector.lost()
        return Sample("kernel-delay/3", target, "", "", window, threads, lost=lost)


# What may be so here, whatever was missed: who else wants the CPU, or interrupts it. A fault takes
# an emulated CPU a millisecond and more.
OF_OTHERS = {"cpu_contention", "interrupt_load", *(["page_faults"] if is_emulated() else [])}


def reported_of_the_kernel(sample: Sample) -> list[str]:
    """What the verdict blames the kernel for that it did in the thread's own calls."""
    return [
        finding.text
        for finding in judge(sample).verdict
        if finding.who == "kernel" and finding.rule not in OF_OTHERS
    ]


def assert_accounted_for(sample: Sample, unknown_ns: int) -> None:
    """At least so much is unknown, nothing else was made of that, and it is no finding."""
    (measured,) = sample.threads
    its = time_of(measured)
    parts = [getattr(its, field) for field in its.__struct_fields__]
    assert min(parts) >= 0
    assert sum(parts) == sample.window.duration_ns
    assert sample.lost.missed_events
    assert its.unaccounted_ns >= unknown_ns, its
    # What the programs saw of the kernel's work is little, but for an emulated CPU's.
    most_ns = unknown_ns // (2 if is_emulated() else 5)
    assert its.kernel_ns < most_ns, its
    assert not reported_of_the_kernel(sample)
    in_calls = sum(in_calls_ns(call) for call in measured.syscalls)
    assert sum(call.on_cpu_ns or 0 for call in measured.syscalls) < most_ns
    assert in_calls <= sample.window.duration_ns


CPU = max(os.sched_getaffinity(0))
SWITCHES = ("on_sched_wakeup", "on_sched_switch")
CALLS = ("on_sys_enter", "on_sys_exit")


def let_run(workload: Workload, time_ns: int, send: Callable[[], None] = lambda: None) -> None:
    """Wait until it has had a CPU for so long from now on; `send` has it run."""
    until_ns = cpu_time_ns(workload.pid) + time_ns
    send()
    wait_until(lambda: cpu_time_ns(workload.pid) > until_ns)


def test_time_is_whole_if_getting_a_cpu_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    # Long enough to get a CPU for a while, however many others want it.
    workload = start_workload("spin", CPU, 2_000 * MS)
    measured = Measured(workload.pid, closing)
    time.sleep(0.2)
    before_ns = cpu_time_ns(workload.pid)
    with measured.programs.blind(*SWITCHES):
        workload.send()
        wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 10 * MS)
    workload.parked()
    sample = measured.end()
    # It slept for 200 ms in read(2), and its return from that is the first that was seen.
    assert sample.lost.missed_events
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.blocked_ns + its.unaccounted_ns >= 190 * MS, its
    assert running_ns(spinner) + its.ready_ns > 20 * MS, its
    assert not reported_of_the_kernel(sample)


def sleep_of(sample: Sample) -> SyscallStats:
    """The one call in which it slept."""
    (call,) = (call for call in sample.threads[0].syscalls if "nanosleep" in (call.name or ""))
    return call


def test_sleep_is_known_if_its_wakeup_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 1, 300 * MS)
    measured = Measured(workload.pid, closing)
    with measured.programs.blind("on_sched_wakeup"):
        workload.ask()
    sample = measured.end()
    assert sample.lost.missed_events
    call = sleep_of(sample)
    assert call.blocked_ns is not None
    assert call.unaccounted_ns is not None
    # A machine may keep the switch from all programs too: then it is not known that it slept.
    unknown_ns = call.unaccounted_ns if sample.lost.missed_context_switches else 0
    assert call.blocked_ns + unknown_ns > 280 * MS


def test_sleep_is_known_if_all_until_its_return_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 1, 300 * MS)
    # Else others could have it leave its CPU before it returns.
    make_real_time(workload.pid, 1)
    measured = Measured(workload.pid, closing)
    slept = workload.slept(workload.pid)
    workload.send()
    wait_until(lambda: workload.slept(workload.pid) > slept and workload.state(workload.pid) == "S")
    with measured.programs.blind(*SWITCHES):
        before = workload.schedstat(workload.pid).runs
        workload.line()
        was_missed = workload.schedstat(workload.pid).runs > before
    sample = measured.end()
    # This test may have had no CPU until the sleep was over.
    assert sample.lost.missed_context_switches or not was_missed
    slept_ns = sleep_of(sample).blocked_ns
    assert slept_ns is not None
    # The scheduler's clock may be a tick behind.
    assert slept_ns > 250 * MS


def test_wait_is_known_if_getting_the_cpu_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    taker = start_workload("spin", CPU, 500 * MS)
    for process, priority in ((workload, 1), (taker, 2)):
        make_real_time(process.pid, priority)
    measured = Measured(workload.pid, closing)
    workload.send()
    wait_until(lambda: cpu_time_ns(workload.pid) > 10 * MS)
    let_run(taker, 5 * MS, taker.send)
    before = switches(workload.pid)
    with measured.programs.blind("on_sched_switch"):
        taker.line()
        taker.parked()
        let_run(workload, 5 * MS)
    # The deadline server of the fair class may have had others run between, this test for one.
    kept_it = switches(workload.pid) == before
    # Another switch from it, which is seen.
    taker.ask()
    sample = measured.end()
    assert sample.lost.missed_events
    assert sample.lost.missed_context_switches or not kept_it
    its = time_of(sample.threads[0])
    known_ns = its.ready_ns if kept_it else its.ready_ns + its.unaccounted_ns
    assert known_ns > 450 * MS, its


@pytest.mark.parametrize("is_moved", [False, True])
def test_waits_are_unknown_if_the_run_between_them_was_missed(
    start_workload: StartWorkload, closing: ExitStack, *, is_moved: bool
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    taker = start_workload("spin", CPU, LASTS_NS)
    for process, priority in ((workload, 1), (taker, 2)):
        make_real_time(process.pid, priority)
    measured = Measured(workload.pid, closing)
    let_run(workload, 10 * MS, workload.send)
    let_run(taker, 100 * MS, taker.send)
    with measured.programs.blind("on_sched_switch"):
        os.kill(taker.pid, signal.SIGSTOP)
        let_run(workload, 5 * MS)
        os.kill(taker.pid, signal.SIGCONT)
        let_run(taker, 100 * MS)
    if is_moved:
        os.sched_setaffinity(workload.pid, os.sched_getaffinity(0) - {CPU} or {CPU})
    os.kill(taker.pid, signal.SIGSTOP)
    let_run(workload, 5 * MS)
    assert_accounted_for(measured.end(), 200 * MS)


def test_sleeps_are_unknown_if_the_run_between_them_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 8, 100 * MS)
    measured = Measured(workload.pid, closing)
    slept = workload.slept(workload.pid)
    workload.send()
    wait_until(lambda: workload.slept(workload.pid) > slept and workload.state(workload.pid) == "S")
    with measured.programs.blind(*SWITCHES, *CALLS):
        slept = workload.slept(workload.pid)
        wait_until(lambda: workload.slept(workload.pid) >= slept + 2)
    workload.line()
    assert_accounted_for(measured.end(), 190 * MS)


def test_who_had_the_cpu_is_unknown_if_switches_of_others_were_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    first = start_workload("spin", CPU, LASTS_NS)
    second = start_workload("spin", CPU, 100 * MS)
    for priority, process in enumerate((workload, first, second), start=1):
        make_real_time(process.pid, priority)
    measured = Measured(workload.pid, closing)
    let_run(workload, 10 * MS, workload.send)
    let_run(first, 5 * MS, first.send)
    with measured.programs.blind("on_sched_switch"):
        second.ask()
        second.parked()
    os.kill(first.pid, signal.SIGSTOP)
    let_run(workload, 5 * MS)
    sample = measured.end()
    assert sample.lost.missed_others_switches
    (waiter,) = sample.threads
    assert waiter.cpu_taken_by_unknown_ns > 90 * MS, waiter
    assert time_of(waiter).ready_ns > 100 * MS


def test_missed_wakeups_are_counted_as_such(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 5, 20 * MS)
    measured = Measured(workload.pid, closing)
    with measured.programs.blind("on_sched_wakeup"):
        workload.ask()
    sample = measured.end()
    lost = sample.lost
    # A kernel may keep the programs from the switch too: then that is what did not fit.
    assert lost.missed_wakeups
    assert lost.missed_wakeups + lost.missed_context_switches >= 5
    assert lost.missed_switches >= lost.missed_wakeups + lost.missed_context_switches
    assert not reported_of_the_kernel(sample)


def test_calls_fit_if_all_switches_were_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    """New ones, and one that sleeps: what they did off a CPU is no time of their calls on one."""
    workload = start_workload("maps", CPU, 50 * MS)
    measured = Measured(workload.pid, closing)
    with measured.programs.blind("on_sched_switch"):
        workload.ask()
    sample = measured.end()
    assert sample.lost.missed_events
    assert len(sample.threads) > 1
    for thread in sample.threads:
        check_calls(thread)


def test_running_thread_without_any_event_is_unaccounted(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    measured = Measured(workload.pid, closing)
    time.sleep(0.1)
    # A real-time thread is not taken off its CPU, which would tell.
    make_real_time(workload.pid, 1)
    before_ns = cpu_time_ns(workload.pid)
    with measured.programs.blind(*SWITCHES, *CALLS):
        workload.send()
        wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 40 * MS)
    time.sleep(0.1)
    sample = measured.end()
    os.sched_setscheduler(workload.pid, os.SCHED_OTHER, os.sched_param(0))
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.kernel_ns < 20 * MS, its
    assert its.blocked_ns + its.unaccounted_ns + running_ns(spinner) + its.ready_ns == (
        sample.window.duration_ns
    )
    # That it runs shows only in an interrupt, if one comes.
    assert its.unaccounted_ns > 0
    assert its.unaccounted_ns + running_ns(spinner) + its.ready_ns > 140 * MS, its
    assert not reported_of_the_kernel(sample)


@pytest.mark.usefixtures("earlier_calls")
def test_running_thread_is_detected_as_it_leaves_its_cpu(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    taker = start_workload("spin", CPU, 5 * MS)
    # No other leaves a CPU to it or takes it: the switch to the taker is what shows.
    for process, priority in ((workload, 1), (taker, 2)):
        make_real_time(process.pid, priority)
    measured = Measured(workload.pid, closing)
    time.sleep(0.1)
    with measured.programs.blind(*SWITCHES, *CALLS):
        workload.send()
        wait_until(lambda: cpu_time_ns(workload.pid) > 10 * MS)
    # It leaves its CPU in its program, and was known to be in read(2). The deadline server of the
    # fair class may have taken that from it before, and this test then asks the taker from there.
    before = switches(workload.pid)
    taker.ask()
    taker.parked()
    was_seen_to_leave = switches(workload.pid) > before
    time.sleep(0.1)
    sample = measured.end()
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.kernel_ns < 20 * MS, its
    if was_seen_to_leave:
        assert its.user_ns + its.ready_ns + its.hard_irq_ns + its.soft_irq_ns > 80 * MS, its
    (read,) = spinner.syscalls
    assert read.count == 0
    assert sample.lost.missed_events
    assert not reported_of_the_kernel(sample)


def test_sleep_is_unaccounted_if_neither_switch_was_seen(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 1, 300 * MS)
    measured = Measured(workload.pid, closing)
    with measured.programs.blind("on_sched_switch"):
        workload.send()
        workload.line()
        workload.parked()
    sample = measured.end()
    assert sample.lost.missed_context_switches > 1
    assert_accounted_for(sample, 290 * MS)


def test_run_is_unaccounted_for_as_long_as_it_waited_unseen(
    start_workload: StartWorkload, closing: ExitStack, tmp_path: Path
) -> None:
    ends = tmp_path / "ends"
    ends.write_bytes(b"\0")
    workload = start_workload("spin", CPU, LASTS_NS, ends)
    taker = start_workload("spin", CPU, 50 * MS)
    for process, priority in ((workload, 1), (taker, 2)):
        make_real_time(process.pid, priority)
    measured = Measured(workload.pid, closing)
    before_ns = cpu_time_ns(workload.pid)
    workload.send()
    wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 10 * MS)
    with measured.programs.blind("on_sched_switch"):
        taker.ask()
        taker.parked()
    wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 200 * MS)
    with ends.open("r+b") as file:
        file.write(b"x")
    workload.line()
    workload.parked()
    sample = measured.end()
    its = time_of(sample.threads[0])
    assert sample.lost.missed_context_switches
    # The deadline server of the fair class may take its CPU as well, and that be seen by half.
    assert 40 * MS < its.unaccounted_ns < its.user_ns, its


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine is x86's")
def test_virtual_machines_time_ends_as_its_thread_leaves_the_cpu(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("machine", 600 * MS)
    if not workload.ready["there"]:
        pytest.skip("this machine has no KVM")
    taker = start_workload("spin", CPU, 200 * MS)
    os.sched_setaffinity(workload.pid, {CPU})
    make_real_time(taker.pid, 1)
    measured = Measured(workload.pid, closing)
    before = workload.schedstat(workload.pid)
    workload.send()
    time.sleep(0.1)
    # As KVMs do that say late that it is over.
    with measured.programs.blind("on_kvm_exit", "on_kvm_entry"):
        taker.ask()
    workload.line()
    workload.parked()
    sample = measured.end()
    its = time_of(sample.threads[0])
    parts = [getattr(its, field) for field in its.__struct_fields__]
    assert min(parts) >= 0, its
    assert sum(parts) == sample.window.duration_ns
    assert its.ready_ns + its.unaccounted_ns > 150 * MS, its
    assert its.guest_ns <= workload.schedstat(workload.pid).since(before).run_ns, its


def test_sleep_is_unaccounted_if_leaving_the_cpu_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("sleeps", "nanosleep", 1, 300 * MS)
    measured = Measured(workload.pid, closing)
    slept = workload.slept(workload.pid)
    with measured.programs.blind("on_sched_switch"):
        workload.send()
        wait_until(lambda: workload.slept(workload.pid) > slept)
    workload.line()
    workload.parked()
    sample = measured.end()
    assert sample.lost.missed_context_switches
    assert_accounted_for(sample, 290 * MS)
    (call,) = (call for call in sample.threads[0].syscalls if "nanosleep" in (call.name or ""))
    assert call.unaccounted_ns is not None
    assert call.unaccounted_ns > 290 * MS


def test_stopped_thread_is_accounted_if_its_switch_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    measured = Measured(workload.pid, closing)
    # A real-time thread is not taken off its CPU before.
    make_real_time(workload.pid, 1)
    workload.send()
    before_ns = cpu_time_ns(workload.pid)
    wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 10 * MS)
    with measured.programs.blind("on_sched_switch"):
        os.kill(workload.pid, signal.SIGSTOP)
        wait_until(lambda: workload.state(workload.pid) == "T")
        time.sleep(0.2)
        sample = measured.end()
    assert_accounted_for(sample, 190 * MS)


def test_switch_missed_until_the_next_window_is_accounted_for(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    # It has the CPU before: some kernels run no program at a switch from tasks of their own.
    other = start_workload("spin", CPU, LASTS_NS)
    measured = Measured(workload.pid, closing)
    for process, priority in ((other, 1), (workload, 2)):
        make_real_time(process.pid, priority)
    workload.send()
    before_ns = cpu_time_ns(workload.pid)
    wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 10 * MS)
    with measured.programs.blind("on_sched_switch"):
        os.kill(workload.pid, signal.SIGSTOP)
        wait_until(lambda: workload.state(workload.pid) == "T")
    let_run(other, 190 * MS, other.send)

    def go_on() -> None:
        """Only in the next window it is seen to get on a CPU, on which it should be by then."""
        before_ns = cpu_time_ns(workload.pid)
        os.kill(workload.pid, signal.SIGCONT)
        wait_until(lambda: cpu_time_ns(workload.pid) > before_ns)
        for process in (workload, other):
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))

    assert_accounted_for(measured.end(go_on), 190 * MS)


def test_a_call_that_was_not_seen_to_return(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    # Long enough to get a CPU for a while, however many others want it.
    workload = start_workload("spin", CPU, 2_000 * MS)
    measured = Measured(workload.pid, closing)
    before_ns = cpu_time_ns(workload.pid)
    with measured.programs.blind("on_sys_exit"):
        workload.send()
        # It has returned from its call before it runs on in its program.
        wait_until(lambda: cpu_time_ns(workload.pid) > before_ns + 10 * MS)
    workload.parked()
    sample = measured.end()
    # Without the return all until the next call would be in the one before; or until it leaves
    # its CPU, as others may have it, and is seen to have come into the kernel without one.
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.kernel_ns < (its.unaccounted_ns + its.user_ns) // 10, its
    assert its.unaccounted_ns, its
    assert its.unaccounted_ns + its.user_ns + its.ready_ns > 100 * MS
    assert sample.lost.missed_calls
    assert not reported_of_the_kernel(sample)


@pytest.mark.usefixtures("earlier_calls")
def test_call_is_unaccounted_if_its_return_was_missed(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    measured = Measured(workload.pid, closing)
    # A real-time thread is not taken off its CPU, which would tell.
    make_real_time(workload.pid, 1)
    with measured.programs.blind("on_sys_exit"):
        workload.send()
        wait_until(lambda: cpu_time_ns(workload.pid) > 10 * MS)
    time.sleep(0.1)
    sample = measured.end()
    os.sched_setscheduler(workload.pid, os.SCHED_OTHER, os.sched_param(0))
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.kernel_ns < 10 * MS, its
    assert its.unaccounted_ns + its.user_ns + its.ready_ns > 100 * MS, its
    assert sample.lost.missed_events
    assert not reported_of_the_kernel(sample)


# bpf/owner.h: SLICES_WALKED.
MOST_SWITCHES = 512


def context_switches() -> int:
    """Those of all CPUs so far."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("ctxt "):
            return int(line.split()[1])
    raise AssertionError("/proc/stat has no ctxt")


def test_task_with_the_cpu_is_known_after_a_missed_switch(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    os.sched_setscheduler(workload.pid, os.SCHED_IDLE, os.sched_param(0))
    before, taker = (start_workload("spin", CPU, LASTS_NS) for _ in range(2))
    measured = Measured(workload.pid, closing)
    workload.send()
    wait_until(lambda: cpu_time_ns(workload.pid) > 1 * MS)
    switches = context_switches()
    before.send()
    wait_until(lambda: cpu_time_ns(before.pid) > 5 * MS)
    with measured.programs.blind("on_sched_switch"):
        taker.send()
        wait_until(lambda: cpu_time_ns(taker.pid) > 5 * MS)
        before.process.kill()
        before.process.wait()
        seen_ns = cpu_time_ns(taker.pid) + 50 * MS
        wait_until(lambda: cpu_time_ns(taker.pid) > seen_ns)
    seen_ns = cpu_time_ns(taker.pid)
    # Seldom looked at: of a wait the tool looks at 512 switches.
    wait_until(lambda: cpu_time_ns(taker.pid) > seen_ns + 100 * MS, every_s=0.05)
    taker.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, taker.process.pid, os.WSTOPPED)
    ran_ns = cpu_time_ns(taker.pid) - seen_ns
    time.sleep(0.05)
    (spinner,) = measured.end().threads
    taken_ns = sum(each.ns for each in spinner.cpu_taken_by if each.tid == taker.pid)
    its = time_of(spinner)
    # Of a wait the tool looks at the newest switches: others may have more, and then who had the
    # CPU before is not known.
    has_seen_all = context_switches() - switches <= MOST_SWITCHES
    least_ns = ran_ns - 10 * MS if has_seen_all else 0
    # The spinner may have run where it was not seen.
    assert taken_ns + its.unaccounted_ns >= least_ns, (ran_ns, its, spinner.cpu_taken_by)
    assert sum(taken.ns for taken in spinner.cpu_taken_by) <= its.ready_ns


@pytest.mark.usefixtures("earlier_calls")
def test_missed_return_is_detected_when_others_take_the_cpu(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    taker = start_workload("spin", CPU, 5 * MS)
    make_real_time(taker.pid, 2)
    measured = Measured(workload.pid, closing)
    stolen = stolen_ns()
    with measured.programs.blind("on_sys_exit"):
        workload.send()
        wait_until(lambda: cpu_time_ns(workload.pid) > 10 * MS)
    taker.ask()
    ran_ns = cpu_time_ns(workload.pid)
    taker.parked()
    time.sleep(0.1)
    sample = measured.end()
    (spinner,) = sample.threads
    its = time_of(spinner)
    assert its.kernel_ns < 10 * MS, its
    # From then on it was in its program again, as is known.
    assert its.user_ns + its.ready_ns + its.hard_irq_ns + its.soft_irq_ns > 80 * MS, its
    # The thread's own clock leaves out what others had of the CPU below the kernel.
    assert 0 < its.unaccounted_ns <= ran_ns + most_stolen_ns(stolen), its
    assert sample.lost.missed_events
    assert not reported_of_the_kernel(sample)


def take_cpu_and_stop(taker: Workload, stopping: AbstractContextManager[None]) -> None:
    """Have the taker go on, get its CPU, and leave it within `stopping` as it is stopped."""
    let_run(taker, 5 * MS, lambda: os.kill(taker.pid, signal.SIGCONT))
    with stopping:
        stop(taker)


def stop(taker: Workload) -> None:
    """Stop it, and wait until it is."""
    os.kill(taker.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, taker.pid, os.WSTOPPED)
    wait_until(lambda: taker.state(taker.pid) == "T")


def test_process_that_no_program_runs_beside_is_named(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    workload = start_workload("spin", CPU, LASTS_NS)
    taker = start_workload("spin", CPU, LASTS_NS)
    make_real_time(taker.pid, 1)
    let_run(taker, 1 * MS, taker.send)
    stop(taker)
    measured = Measured(workload.pid, closing)
    let_run(workload, 1 * MS, workload.send)

    def named() -> Untraced | None:
        untraced = measured.programs.missed().untraced
        return untraced if untraced and untraced.pid == taker.pid else None

    def is_named() -> bool:
        # The machine may have such a process of its own, which may come first.
        lib.store_counter(ffi.addressof(measured.programs.control, "untraced"), 0)
        for _ in range(3):
            take_cpu_and_stop(taker, measured.programs.blind("on_sched_switch"))
        return named() is not None

    wait_until(is_named)
    untraced = named()
    assert untraced is not None
    assert untraced.missed >= 2
    assert untraced.comm == "spin"

    def is_seen() -> bool:
        take_cpu_and_stop(taker, nullcontext())
        return named() is None

    wait_until(is_seen, "a switch from it that was seen")


def test_what_finds_no_room_is_counted(
    start_workload: StartWorkload, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more threads than there are records each is measured or lost, and none in silence."""
    threads = 1000
    monkeypatch.setattr(program_options, "doublings", lambda *_, **__: -MOST_HALVINGS)
    room = ring_entries(-MOST_HALVINGS)["thread_records"]
    workload = start_workload("crowd", threads, 0)
    measured = Measured(workload.pid, closing)
    workload.ask()
    workload.parked()
    sample = measured.end()
    made = [each for each in sample.threads if any(call.count for call in each.syscalls)]
    assert 0 < len(made) <= room
    assert sample.lost.dropped_records > 0
    assert len(made) + sample.lost.dropped_records + sample.lost.missed_events >= threads
    window_ns = sample.window.duration_ns
    assert all(sum(astuple(time_of(each))) == window_ns for each in sample.threads)


def test_calls_have_one_record_in_a_large_ring_too(
    start_workload: StartWorkload, closing: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, behind = 5000, 70_000
    monkeypatch.setattr(program_options, "doublings", lambda *_, **__: 1)
    workload = start_workload("calls", f"{syscall_number('getppid')}={calls}")
    measured = Measured(workload.pid, closing)
    ring = measured.programs.control.rings[lib.SYSCALL_RING]
    ring.head = ring.tail = behind
    workload.ask()
    taken = ring.head - behind
    sample = measured.end()
    counts = {call.name: call.count for call in sample.threads[0].syscalls}
    assert counts["getppid"] > calls // 2
    assert taken < 100


def test_no_cpu_is_waited_for_when_nobody_waits(
    start_workload: StartWorkload, closing: ExitStack
) -> None:
    """Or what others run there would be noted for ever."""
    hog = start_workload("duty", CPU, LASTS_NS, 0, MS, 0)
    workload = start_workload("spin", CPU, LASTS_NS)
    measured = Measured(workload.pid, closing)
    hog.send()
    workload.send()

    def nobody_waits() -> bool:
        """Whether its waits are over once it is stopped; the end of one may be missed."""
        os.kill(workload.pid, signal.SIGCONT)
        let_run(workload, 20 * MS)
        stop(workload)
        queues = ffi.from_buffer("struct run_queue[]", measured.programs.run_queues)
        return not any((queue.waiting + queue.moved) & 0xFFFFFFFF for queue in queues)

    wait_until(nobody_waits)
    waited = measured.end().threads[0]
    assert time_of(waited).ready_ns > 0
