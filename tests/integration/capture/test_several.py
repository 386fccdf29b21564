"""Several processes at once: each on its own, those that were asked for and what they fork."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from kernel_delay.analysis.timeline import by_thread
from kernel_delay.capture.plan import Plan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.model import Sample
from tests import commands
from tests.integration.capture.captures import StartCapture, calls, end, thread
from tests.integration.capture.scheduler_clock import most_stolen_ns, stolen_ns
from tests.integration.capture.workload import StartWorkload, known_syscall
from tests.timeline_accounts import account_of
from tests.workload import wait_until

GETPPID = known_syscall("getppid")


def callers(sample: Sample) -> Mapping[int, int]:
    """How often each thread called getppid(2)."""
    counts = {measured.tid: calls(measured).get(GETPPID, 0) for measured in sample.threads}
    return {tid: count for tid, count in counts.items() if count}


def running_ns(sample: Sample) -> int:
    """How long its threads were on a CPU, by their accounts."""
    return sum(
        time.user_ns + time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns
        for measured in sample.threads
        if (time := measured.time) is not None
    )


def test_each_process_has_its_own_threads_calls_and_account(
    slow_machine: bool, start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    counts = (1000, 77, 5) if slow_machine else (100_000, 10_000, 5)
    first, second, other = (start_workload("calls", f"{GETPPID}={count}") for count in counts)
    capture = start_capture(first.pid, options=("--pid", str(second.pid)))
    capture.wait_until_open()
    befores = {work.pid: work.parked()[work.pid] for work in (first, second)}
    stolen_before_ns = stolen_ns()
    for work in (first, second, other):
        work.ask()
    afters = {work.pid: work.parked()[work.pid] for work in (first, second)}

    samples = end(capture)

    assert sorted(samples) == sorted([first.pid, second.pid])
    assert callers(samples[first.pid]) == {first.pid: counts[0]}
    assert callers(samples[second.pid]) == {second.pid: counts[1]}
    if slow_machine:
        return  # its scheduler's clock lags by more than they run
    for pid, sample in samples.items():
        expected_ns = afters[pid].since(befores[pid]).run_ns
        # A fifth: interrupts may be none of the scheduler's.
        slack_ns = expected_ns // 5 + 5_000_000 + most_stolen_ns(stolen_before_ns)
        assert running_ns(sample) == pytest.approx(expected_ns, abs=slack_ns)


def test_children_forked_before_and_during_the_window_are_measured(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    family = start_workload("family", 50)
    capture = start_capture(family.pid, options=("--children",))
    capture.wait_until_open()

    answer = family.ask()
    family.parked()
    samples = end(capture)

    children, grandchild, elder = answer["children"], answer["grandchild"], family.ready["elder"]
    assert set(samples) == {family.pid, elder, grandchild, *children}
    assert [callers(samples[pid]) for pid in children] == [
        {pid: number} for number, pid in enumerate(children, start=1)
    ]
    assert callers(samples[grandchild]) == {grandchild: 1000}
    assert samples[grandchild].target.comm == "true"
    assert all(thread(samples[pid], pid).exited for pid in (*children, grandchild))
    assert not thread(samples[elder], elder).exited


TITLED = """
$0 = "idle";
$SIG{USR1} = sub { $0 = "serving " . shift; };
$| = 1;
print "ready\n";
sleep 600 while 1;
"""


def title(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode()


def test_each_process_has_its_newest_title(start_capture: StartCapture) -> None:
    with ExitStack() as stack:
        command = ["perl", "-e", TITLED]
        servers = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE)) for _ in range(2)
        ]
        for server in servers:
            stack.callback(server.kill)
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
        first, second = (server.pid for server in servers)
        capture = start_capture(first, options=("--pid", str(second)))
        capture.wait_until_open()
        os.kill(first, signal.SIGUSR1)
        wait_until(lambda: title(first) == "serving USR1", "the new title")

        samples = end(capture)

    assert samples[first].target.command_line == ("serving USR1",)
    assert samples[second].target.command_line == ("idle",)


def test_exited_process_has_no_arguments_from_before_its_exec() -> None:
    command = ("--children", "--json", "-", "--", "sh", "-c", "(exec sleep 0.01); exit 0")
    # The program's own output is stdout: what is reported goes to stderr.
    done = commands.run(*command)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("{")]
    targets = [msgspec.json.decode(line, type=Sample).target for line in lines]
    words = {target.comm: target.command_line for target in targets}
    assert words["sh"] == ("sh", "-c", "(exec sleep 0.01); exit 0")
    assert words["sleep"] in ((), ("sleep", "0.01"))


def test_without_children_none_is_measured(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    family = start_workload("family", 3)
    capture = start_capture(family.pid, options=("--pid", str(os.getpid())))
    capture.wait_until_open()

    family.ask()
    family.parked()

    assert set(end(capture)) == {family.pid, os.getpid()}


def test_window_ends_when_all_requested_processes_have_exited(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    first, second = (start_workload("calls", f"{GETPPID}={count}") for count in (3, 4))
    capture = start_capture(first.pid, options=("--pid", str(second.pid)))
    capture.wait_until_open()

    for work in (first, second):
        work.ask()
        work.kill()

    samples = {sample.target.pid: sample for sample in capture.samples()}
    assert {pid: sample.window.ended_by for pid, sample in samples.items()} == {
        first.pid: "exit",
        second.pid: "exit",
    }
    assert callers(samples[first.pid]) == {first.pid: 3}
    assert callers(samples[second.pid]) == {second.pid: 4}


LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def test_pid_of_an_exited_process_is_free_for_others(measurable: None, root_user: None) -> None:
    if not LAST_PID.exists():
        pytest.skip("this kernel lets nobody choose a PID (CONFIG_CHECKPOINT_RESTORE)")
    with ExitStack() as stack:
        processes = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        first, second = (process.pid for process in processes)
        plan = Plan(WindowPlan(sample_time_ns=1))
        programs = stack.enter_context(Programs((first, second), plan))
        assert programs.targets() == {first, second}
        processes[0].kill()
        processes[0].wait()
        # Its last thread may need it yet.
        assert programs.targets() == {first, second}

        def another_has_it() -> bool:
            last = LAST_PID.read_text()
            LAST_PID.write_text(str(first - 1))
            subprocess.run(["true"], check=True)
            # Other tests' processes are to have numbers that were not in use just now.
            LAST_PID.write_text(last)
            return programs.targets() == {second}

        wait_until(another_has_it, "another process with that number")


def test_a_name_means_all_that_are_called_so(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    works = [start_workload("family", 1) for _ in range(2)]
    done = commands.run("--comm", "family", "--sample-time", "0.1", "--all-threads")
    assert done.returncode == 0, done.stderr
    assert "# 4 processes: 4 family\n" in done.stdout
    for work in works:
        for pid in (work.pid, work.ready["elder"]):
            assert f"# Process {pid} (family): family " in done.stdout


def test_exited_processes_are_named_and_the_others_measured(
    measurable: None, start_workload: StartWorkload
) -> None:
    first, second = (start_workload("calls") for _ in range(2))
    with subprocess.Popen(["true"]) as zombie, subprocess.Popen(["true"]) as gone:
        gone.wait()
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        pids = [second.pid, zombie.pid, gone.pid, first.pid, zombie.pid]
        asked = [word for pid in pids for word in ("--pid", str(pid))]
        done = commands.run(*asked, "--sample-time", "0.01", "--json")
        none = commands.run("--pid", zombie.pid, "--pid", gone.pid)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"kernel-delay: process {zombie.pid} has exited; its parent has yet to collect it:"
        " measuring the others",
        f"kernel-delay: there is no process {gone.pid}: measuring the others",
    ]
    samples = [msgspec.json.decode(line, type=Sample) for line in done.stdout.splitlines()]
    assert sorted(each.target.pid for each in samples) == sorted([first.pid, second.pid])
    assert none.returncode == os.EX_NOINPUT
    assert none.stderr == (
        f"kernel-delay: process {zombie.pid} has exited; its parent has yet to collect it;"
        f" there is no process {gone.pid}\n"
    )


def check_timelines(samples: Mapping[int, Sample]) -> None:
    """Each process has the slices of its threads, and these add up to their accounts."""
    for sample in samples.values():
        assert sample.timeline is not None
        found = {tid: list(slices) for tid, slices in by_thread(sample.timeline)}
        assert found.keys() == {each.tid for each in sample.threads}
        for each in sample.threads:
            assert each.time is not None
            if not each.time.unaccounted_ns:
                assert account_of(found[each.tid], sample.window) == each.time


def slices_of_calls(sample: Sample, name: str) -> int:
    return sum(each.kind == "call" and each.name == name for each in sample.timeline or ())


def test_each_process_has_its_own_timeline(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    """Of threads whose ids lie between those of the other, too."""
    counts = (300, 20)
    works = [start_workload("calls", f"{GETPPID}={count}") for count in counts]
    crowd = start_workload("crowd", 5, 10)
    others = [word for work in (works[1], crowd) for word in ("--pid", str(work.pid))]
    capture = start_capture(works[0].pid, options=("--timeline", *others))
    capture.wait_until_open()
    for work in (*works, crowd):
        work.ask()
    for work in works:
        work.parked()
    samples = end(capture)
    assert samples.keys() - {0} == {crowd.pid, *(work.pid for work in works)}
    if 0 not in samples:
        check_timelines(samples)
    for work, count in zip(works, counts, strict=True):
        assert slices_of_calls(samples[work.pid], "getppid") == count


def test_so_have_those_that_are_forked_meanwhile(
    start_workload: StartWorkload, start_capture: StartCapture
) -> None:
    family = start_workload("family", 10)
    capture = start_capture(family.pid, options=("--children", "--timeline"))
    capture.wait_until_open()
    answer = family.ask()
    family.parked()
    samples = end(capture)
    check_timelines(samples)
    for number, pid in enumerate(answer["children"], start=1):
        assert slices_of_calls(samples[pid], "getppid") == number


def test_option_for_one_process_is_refused_in_one_line() -> None:
    done = commands.run("--pid", str(os.getpid()), "--pid", "1", "-s")
    assert done.returncode == os.EX_USAGE
    assert "measures one process" in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_takes_one_process_says_so_in_a_line() -> None:
    done = commands.run("watch", "--pid", str(os.getpid()), "--pid", str(os.getppid()))
    assert done.returncode == os.EX_USAGE
    assert " selects 2 processes" in done.stderr
    assert done.stderr.count("\n") == 1
