"""Rounds: each from a poll's return to the next poll, those that were long with their account."""

import functools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import astuple

from kernel_delay.analysis.rounds import ran_functions
from kernel_delay.analysis.timeline import LOST, whole_parts
from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import EventPlan, RoundPlan
from kernel_delay.capture.rounds.watch import Watch
from kernel_delay.host.target import find_target
from kernel_delay.model import RoundTotals, Sample
from tests.emulation import is_emulated
from tests.integration.capture.captures import assert_accounted, calls
from tests.integration.capture.workload import StartWorkload, Workload, known_syscall, undisturbed
from tests.timeline_accounts import account_of

NS_PER_MS = 1_000_000


@pytest.fixture(
    autouse=True,
    params=[False, pytest.param(True, marks=pytest.mark.long)],
    ids=["polls_alone", "each_call"],
)
def hooked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is of both: where polls alone are hooked, and where each call is."""
    plan = functools.partial(RoundPlan, calls=request.param)
    monkeypatch.setattr(sys.modules[__name__], "RoundPlan", plan)


def watched(
    pid: int,
    work: Callable[[], None],
    plan: RoundPlan,
    events: EventPlan | None = None,
    tick: Callable[[], None] = lambda: None,
) -> tuple[list[Sample], RoundTotals]:
    """Watch while `work` is done."""
    failures: list[BaseException] = []

    def work_and_interrupt() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)
        os.kill(os.getpid(), signal.SIGINT)

    worker = threading.Thread(target=work_and_interrupt)
    with Watch(find_target(pid), plan, events) as watch:
        worker.start()
        samples = [judge(sample) for sample in watch.rounds(tick)]
        totals = watch.totals()
    worker.join()
    assert not failures
    return samples, totals


def asked(
    workload: Workload, plan: RoundPlan, events: EventPlan | None = None
) -> tuple[list[Sample], RoundTotals, dict[str, Any]]:
    """Watch while a workload does what it does, and return its answer too."""
    answers: list[dict[str, Any]] = []
    samples, totals = watched(workload.pid, lambda: answers.append(workload.ask()), plan, events)
    return samples, totals, answers[0]


def first_that_began_after(time_ns: int, samples: Iterator[Sample]) -> Sample:
    return next(sample for sample in samples if sample.window.start_ns > time_ns)


def without_waits_for_a_cpu(samples: list[Sample], threshold_ns: int) -> list[Sample]:
    """Those that were no retries of a poll which other tasks on a busy machine kept from it."""
    times = ((sample, assert_accounted(sample).time) for sample in samples)
    return [sample for sample, time in times if time is None or time.ready_ns < threshold_ns]


def of_work(samples: list[Sample]) -> list[Sample]:
    """The rounds in which long_work slept; on a slow machine others are long too."""
    slept = {known_syscall("nanosleep"), known_syscall("clock_nanosleep")}
    return [each for each in samples if slept & calls(assert_accounted(each)).keys()]


def test_each_long_round_is_reported_once_with_its_account(start_workload: StartWorkload) -> None:
    count = 20
    workload = start_workload("long_work", count)

    samples, totals, seen = asked(workload, RoundPlan(threshold_ns=5 * NS_PER_MS, calls=True))

    assert (totals.long, totals.missed, totals.suppressed) == (len(samples), 0, 0)
    rounds = [(assert_accounted(sample), sample) for sample in of_work(samples)]
    # Where the end of a poll was missed, it is not known that a round began.
    assert count - totals.lost.missed_events <= len(rounds) <= count
    for found, sample in rounds:
        if sample.lost.missed_events:
            continue
        # What the rounds before did is not in it: with their time it would be all unaccounted.
        assert found.time is not None
        assert found.time.user_ns
        inside_ns, outside_ns = seen["rounds"][calls(found)[known_syscall("read")] - 1]
        assert inside_ns <= sample.window.duration_ns <= outside_ns
        assert found.long_poll is not None
        assert found.long_poll.total_ns == sample.window.duration_ns


def test_what_is_in_a_round_is_in_its_tables(start_workload: StartWorkload) -> None:
    workload = start_workload("long_work", 8)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=5 * NS_PER_MS, calls=True))

    whole = [sample for sample in of_work(samples) if not sample.lost.missed_events]
    assert whole or totals.lost.missed_events
    for sample in whole:
        found = assert_accounted(sample)
        assert found.time is not None
        assert sum(sleep.ns for sleep in found.sleeps) == found.time.blocked_ns
        takers_ns = sum(taker.ns for taker in found.cpu_taken_by)
        takers_ns += found.cpu_taken_by_others_ns + found.cpu_taken_by_unknown_ns
        assert takers_ns == found.time.ready_ns
    # On a slow machine a timer may go off before the thread sleeps.
    slept = [sleep for sample in whole for sleep in sample.threads[0].sleeps]
    assert any(sleep.syscall in ("nanosleep", "clock_nanosleep") for sleep in slept)


@pytest.mark.usefixtures("earlier_calls")
def test_old_round_is_sampled_and_keeps_its_long_calls(start_workload: StartWorkload) -> None:
    workload = start_workload("poll_threads", 1, 500 * NS_PER_MS)
    plan = RoundPlan(threshold_ns=300 * NS_PER_MS)
    events = EventPlan(shortest_ns=NS_PER_MS, max_events=1000, max_stacks=100)

    samples, _, _ = asked(workload, plan, events)

    mine = [each for each in samples if each.round and each.round.tid == workload.pid]
    sample = mine[-1]
    assert sample.round is not None
    assert sample.round.profile_start_ns is not None
    assert sample.round.profile_start_ns - sample.window.start_ns >= plan.suspect_ns
    assert all(
        sample.window.start_ns <= each.entry_ns <= each.exit_ns <= sample.window.stop_ns
        for each in sample.syscall_events or ()
    )
    assert ran_functions(sample)[0].name in ("spin_ns", "now_ns", "run_ns", "main")


# Each line has it touch fresh memory for a while, between two polls.
TOUCHES = """
import contextlib, mmap, select, sys, time
for line in sys.stdin:
    select.poll().poll(1)
    until = time.monotonic() + float(line)
    while time.monotonic() < until:
        with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            with contextlib.suppress(OSError):  # a kernel without huge pages
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(memory), mmap.PAGESIZE):
                memory[at] = 1
    select.poll().poll(1)
    print("done", flush=True)
"""


def test_page_faults_of_a_round_are_not_user_work() -> None:
    # Before others: of a round that mostly waits for a CPU they are no great part.
    command = [*undisturbed(), sys.executable, "-c", TOUCHES]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as target:
        assert target.stdin is not None
        assert target.stdout is not None
        stdin, stdout = target.stdin, target.stdout

        def work() -> None:
            print("1.0", file=stdin, flush=True)
            assert stdout.readline() == "done\n"

        samples, _ = watched(target.pid, work, RoundPlan(threshold_ns=500 * NS_PER_MS))
        stdin.close()
    sample = max(samples, key=lambda each: each.window.duration_ns)
    (found,) = sample.threads
    assert found.time is not None
    assert found.task_times is not None
    assert found.task_times.minor_faults > 10_000
    ran_ns = found.time.user_ns + found.time.kernel_ns
    assert found.task_times.user_ns + found.task_times.system_ns > ran_ns / 2
    rules = {finding.rule: finding for finding in sample.verdict}
    assert rules.keys() & {"doubtful_user", "page_faults"}
    assert rules.get("user_work") is None or rules["user_work"].share < 0.8


def packets_round(workload: Workload, plan: RoundPlan) -> tuple[Sample, int, int]:
    """The round in which it sent itself packets, how many, and how many were received in it."""
    samples, _, seen = asked(workload, plan)
    sample = max(samples, key=lambda each: each.window.duration_ns)
    received = sum(irq.count for irq in assert_accounted(sample).soft_irqs if irq.name == "net_rx")
    return sample, int(seen["sent"]), received


def test_soft_irqs_are_reported_once_a_round_is_old(start_workload: StartWorkload) -> None:
    workload = start_workload("packets", max(os.sched_getaffinity(0)), 1500 * NS_PER_MS)
    plan = RoundPlan(threshold_ns=1000 * NS_PER_MS)

    sample, sent, received = packets_round(workload, plan)

    assert sample.round is not None
    assert sample.round.soft_irqs_start_ns is not None
    late_ns = sample.round.soft_irqs_start_ns - sample.window.start_ns
    assert plan.suspect_ns <= late_ns < sample.window.duration_ns
    assert 0 < received < sent


def test_short_thresholds_report_all_soft_irqs(start_workload: StartWorkload) -> None:
    workload = start_workload("packets", max(os.sched_getaffinity(0)), 500 * NS_PER_MS)

    sample, sent, received = packets_round(workload, RoundPlan(threshold_ns=300 * NS_PER_MS))

    assert sample.round is not None
    assert sample.round.soft_irqs_start_ns is None
    # ksoftirqd may take some, and one of them may receive several.
    assert received + sample.lost.missed_events > sent / 2


def test_timeline_of_a_round_adds_up_to_its_account(start_workload: StartWorkload) -> None:
    workload = start_workload("long_work", 8)

    plan = RoundPlan(threshold_ns=5 * NS_PER_MS, max_slices=1 << 14, calls=True)
    samples, _, _ = asked(workload, plan)

    assert of_work(samples)
    for sample in samples:
        found = assert_accounted(sample)
        assert sample.timeline is not None
        assert sample.round is not None
        assert sample.round.slices_left_out == 0
        assert whole_parts(sample.timeline, sample.window) is None
        assert {each.tid for each in sample.timeline} == {sample.round.tid}
        if found.time is not None and not sample.lost.missed_events:
            assert account_of(sample.timeline, sample.window) == found.time


def test_long_timeline_keeps_its_first_and_last_slices(start_workload: StartWorkload) -> None:
    room = 64
    workload = start_workload("long_work", room)

    plan = RoundPlan(threshold_ns=5 * NS_PER_MS, max_slices=room, calls=True)
    samples, _, _ = asked(workload, plan)

    # As it reads once more than before there is no room for all calls of the last rounds.
    sample = max(of_work(samples), key=lambda each: sum(calls(assert_accounted(each)).values()))
    made = sum(calls(assert_accounted(sample)).values())
    assert sample.timeline is not None
    assert sample.round is not None
    assert made > room
    assert sample.round.slices_left_out >= made - room
    kept = [each for each in sample.timeline if each.kind not in LOST]
    assert len(kept) <= room + 2  # what went on behind the first, and at the end, is in none
    assert kept[0].start_ns == sample.window.start_ns
    assert max(each.stop_ns for each in kept) == sample.window.stop_ns
    parts = whole_parts(sample.timeline, sample.window)
    assert parts is not None
    first_ns, last_ns = parts
    assert 0 < first_ns < sample.window.duration_ns - last_ns < sample.window.duration_ns


def test_memory_limit_drops_timelines_first_and_then_stacks(start_workload: StartWorkload) -> None:
    """What is not needed for the account: that is there to the last."""
    workload = start_workload("polls", "ppoll", 1_000_000, 5 * NS_PER_MS)
    plan = RoundPlan(threshold_ns=4 * NS_PER_MS, max_slices=1024, calls=True)
    events = EventPlan(shortest_ns=NS_PER_MS, max_events=1000, max_stacks=100)

    with Watch(find_target(workload.pid), plan, events) as watch:
        samples = watch.rounds()
        workload.send()
        sample = next(samples)
        assert sample.timeline is not None
        assert sample.syscall_events is not None
        for given_up in ("timelines", "stacks", "frequent looks at the threads", None):
            assert watch.give_up() == given_up
            sample = first_that_began_after(time.monotonic_ns(), samples)
            assert_accounted(sample)
            assert sample.timeline is None
            assert (sample.syscall_events is None) == (given_up != "timelines")


def test_short_rounds_leave_nothing_but_their_lengths(start_workload: StartWorkload) -> None:
    count, work_ns = 200, 100_000
    workload = start_workload("polls", "ppoll", count, work_ns)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=10**12))

    assert not samples
    (reported,) = (each for each in totals.threads if each.tid == workload.pid)
    # The last poll is followed by no other but that which ends the workload, if any.
    assert count - 1 - totals.lost.missed_events <= sum(reported.lengths) <= count
    assert sum(reported.lengths[:16]) == 0  # all are of 2^16 ns and more
    assert reported.longest_ns >= work_ns


def test_only_longer_rounds_are_reported_during_the_gap(start_workload: StartWorkload) -> None:
    count = 20
    workload = start_workload("long_work", count)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=5 * NS_PER_MS, gap_ns=600 * 10**9))

    lengths = [sample.window.duration_ns for sample in samples]
    assert lengths == sorted(lengths)
    (reported,) = (each for each in totals.threads if each.tid == workload.pid)
    assert lengths[-1] == reported.longest_ns
    # Where the end of a poll was missed, it is not known that a round began.
    assert totals.long >= count - totals.lost.missed_events
    assert totals.suppressed == totals.long - len(samples)


# Each of its threads has a round of some seconds that begins after so many.
ROUNDS_OF_THREADS = """
import json, select, sys, threading, time

def work(begin, length):
    time.sleep(begin)
    select.poll().poll(0)
    time.sleep(length)
    select.poll().poll(0)
    over.wait()
    time.sleep(600)

sys.stdin.readline()
rounds = json.loads(sys.argv[1])
over = threading.Barrier(len(rounds) + 1)
for each in rounds:
    threading.Thread(target=work, args=each, daemon=True).start()
over.wait()
print(flush=True)
time.sleep(600)
"""


def rounds_of_threads(rounds: list[tuple[float, float]]) -> tuple[list[Sample], RoundTotals]:
    """Watch threads with a round each, with a gap that is never over."""
    command = [sys.executable, "-c", ROUNDS_OF_THREADS, json.dumps(rounds)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def work() -> None:
            print(file=stdin, flush=True)
            stdout.readline()

        plan = RoundPlan(threshold_ns=100 * NS_PER_MS, gap_ns=600 * 10**9)
        try:
            return watched(process.pid, work, plan)
        finally:
            process.kill()


@pytest.mark.usefixtures("root_user", "measurable")
def test_gap_is_of_each_thread() -> None:
    """The round of one is no reason to leave out a shorter one of another."""
    samples, totals = rounds_of_threads([(0, 0.6), (0.3, 0.4)])
    assert len({sample.threads[0].tid for sample in samples}) == 2
    assert totals.suppressed == 0


@pytest.mark.usefixtures("root_user", "measurable")
def test_records_of_many_threads_in_a_gap_are_bounded() -> None:
    count = 40
    samples, totals = rounds_of_threads([(0.03 * each, 0.6 - 0.01 * each) for each in range(count)])
    assert 8 <= len(samples) < count
    assert totals.suppressed == totals.long - len(samples)


def test_everything_is_long(start_workload: StartWorkload) -> None:
    count = 2000
    workload = start_workload("polls", "ppoll", count, 0)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=0))

    assert len(samples) + totals.missed + totals.left == totals.long
    assert totals.long >= count - 1 - totals.lost.missed_events
    assert samples
    for sample in samples:
        assert_accounted(sample)


def test_rounds_waiting_to_be_reported_are_not_suppressed(start_workload: StartWorkload) -> None:
    workload = start_workload("polls", "ppoll", 2000, 0)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=0))

    assert totals.suppressed == 0
    assert all(sample.round and not sample.round.suppressed for sample in samples)
    assert totals.long <= sum(sum(each.lengths) for each in totals.threads)


def test_the_records_tell_of_the_rounds_between_them(start_workload: StartWorkload) -> None:
    workload = start_workload("polls", "ppoll", 500, 0)

    samples, totals, _ = asked(workload, RoundPlan(threshold_ns=0, gap_ns=20 * NS_PER_MS))

    reported = sum(sample.round.suppressed for sample in samples if sample.round)
    assert 0 < reported <= totals.suppressed
    assert len(samples) + totals.suppressed + totals.missed + totals.left == totals.long


def test_interrupt_at_the_end_of_a_round_is_excluded(start_workload: StartWorkload) -> None:
    """These rounds are shorter than an interrupt, and it comes as often in what ends one."""
    workload = start_workload("interrupted_polls", 40, 200)

    samples, _, _ = asked(workload, RoundPlan(threshold_ns=0))

    times = [found.time for sample in samples if (found := assert_accounted(sample)).time]
    assert any(time.hard_irq_ns for time in times)
    assert min(min(astuple(time)) for time in times) >= 0


def test_interrupt_of_the_round_before_is_excluded(start_workload: StartWorkload) -> None:
    """It is all that happens in a round that is not reported."""
    times, long_ns = 40, NS_PER_MS
    workload = start_workload("interrupted_rounds", times, NS_PER_MS // 5, long_ns)

    samples, _, _ = asked(workload, RoundPlan(threshold_ns=long_ns))

    rounds = [assert_accounted(sample) for sample in samples]
    assert len(rounds) >= times
    in_no_row = [
        each
        for each in rounds
        if each.time and each.time.hard_irq_ns != sum(irq.total_ns for irq in each.hard_irqs)
    ]
    # One that comes while the round's record is made is in none either.
    assert len(in_no_row) < times // 2


def test_poll_restarted_after_a_signal_is_one_poll(start_workload: StartWorkload) -> None:
    """A program that is stopped in its poll, and goes on, has waited all the time."""
    threshold_ns = 10 * NS_PER_MS
    workload = start_workload("kept_polls", "wait", 3 * threshold_ns)

    samples, _, seen = asked(workload, RoundPlan(threshold_ns=threshold_ns))

    assert seen["outside_ns"] >= 3 * threshold_ns
    assert not without_waits_for_a_cpu(samples, threshold_ns)


@pytest.mark.parametrize("what", ["stopped", "preempted"])
def test_delay_before_an_interrupted_poll_restarts_is_a_round(
    start_workload: StartWorkload, what: str
) -> None:
    """As it called nothing, and does not run, there is nothing but time to tell it by."""
    work_ns = 60 * NS_PER_MS
    workload = start_workload("kept_polls", what, work_ns)

    samples, totals, seen = asked(workload, RoundPlan(threshold_ns=work_ns // 2))

    sample = max(samples, key=lambda each: each.window.duration_ns)
    time = assert_accounted(sample).time
    assert time is not None
    assert seen["inside_ns"] <= sample.window.duration_ns <= seen["outside_ns"]
    # Who is to be stopped needs a CPU for that, as it does afterwards.
    kept_ns = time.ready_ns + time.stopped_ns
    # Of a switch that was missed it is known that one was.
    unknown_ns = time.unaccounted_ns if totals.lost.missed_events else 0
    assert what == "preempted" or time.stopped_ns + unknown_ns > 0
    assert kept_ns + unknown_ns > min(seen["kept_ns"], work_ns) / 2


@pytest.mark.skipif(is_emulated(), reason="so many threads take minutes on an emulated CPU")
def test_threads_that_end_leave_room_for_others(start_workload: StartWorkload) -> None:
    """More of them than there are records, and at no time as many."""
    at_once, turns, long_ns = 1000, 12, 20 * NS_PER_MS
    workload = start_workload("poll_threads", at_once, long_ns)
    looked = threading.Event()
    answers: list[dict[str, Any]] = []

    def ask_in_turns() -> None:
        for _ in range(turns):
            answers.append(workload.ask())
            # The first look may have begun before the answer came.
            for _ in range(2):
                looked.clear()
                looked.wait()

    samples, totals = watched(
        workload.pid, ask_in_turns, RoundPlan(threshold_ns=long_ns), tick=looked.set
    )

    mine = [each for each in samples if each.round and each.round.tid == workload.pid]
    found = assert_accounted(mine[-1])
    assert mine[-1].window.duration_ns >= answers[-1]["worked_ns"]
    assert found.time is not None
    assert found.time.user_ns > 0
    assert not any(each.lost.dropped_records for each in mine)
    ended = [each for each in totals.threads if not each.tid]
    # A round or two of each: from poll to poll, and none of those that were missed.
    rounds = sum(sum(each.lengths) for each in ended)
    assert at_once * turns <= rounds <= 2 * at_once * turns


@pytest.mark.parametrize(
    "name",
    ["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"],
)
def test_each_kind_of_poll_makes_rounds(start_workload: StartWorkload, name: str) -> None:
    count, work_ns = 10, 10 * NS_PER_MS
    workload = start_workload("polls", name, count, work_ns)
    if not workload.ready["there"]:
        pytest.skip(f"{name} is none of this architecture's calls")

    samples, totals, seen = asked(workload, RoundPlan(threshold_ns=work_ns))

    assert totals.long == len(samples)
    lengths = [sample.window.duration_ns for sample in samples if assert_accounted(sample)]
    # From the last poll on it works, answers and waits for a line, and polls no more. Where one was
    # missed, two rounds are one.
    assert count - 1 - totals.lost.missed_events <= len(lengths) <= count - 1
    if not totals.lost.missed_events:
        assert seen["inside"]["total_ns"] <= sum(lengths) <= seen["outside"]["total_ns"]
        times = [sample.threads[0].time for sample in samples]
        assert [time and time.unaccounted_ns for time in times] == [0] * len(samples)


# A loop of each kind that waits for one file, as for an answer that takes a time. A line of
# input begins it, and one of output is its end.
WAITS = """
import os, select, sys, time

def wait(kind, files, seconds):
    if kind == "epoll":
        epoll = select.epoll()
        [epoll.register(file, select.EPOLLIN) for file in files]
        epoll.poll(seconds)
    elif kind == "select":
        select.select(files, [], [], seconds)
    else:
        poll = select.poll()
        [poll.register(file, select.POLLIN) for file in files]
        poll.poll(seconds * 1000)

loop, files, answer_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
pipes = [os.pipe()[0] for _ in range(files)]
print(flush=True)
sys.stdin.readline()
for _ in range(4):
    wait(loop, pipes, 0.02)
    wait("poll", pipes[:1], answer_s)
wait(loop, pipes, 0.02)
print(flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize(
    ("loop", "files", "expected"),
    [
        ("epoll", 1, 4),
        ("select", 2, 4),
        # Two polls of a loop of poll(2): which of them is the loop's is not known.
        ("poll", 2, 0),
    ],
)
def test_wait_for_one_file_belongs_to_the_round(
    measurable: None, loop: str, files: int, expected: int
) -> None:
    answer_ns = 150 * NS_PER_MS
    command = [sys.executable, "-c", WAITS, loop, str(files), str(answer_ns / 1e9)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def work() -> None:
            os.write(process.stdin.fileno(), b"\n")  # type: ignore[union-attr]
            process.stdout.readline()  # type: ignore[union-attr]

        samples, totals = watched(process.pid, work, RoundPlan(threshold_ns=answer_ns))
        process.communicate(b"\n")
    polled = [
        sample
        for sample in samples
        if any(
            sleep.syscall in {"poll", "ppoll"} and sleep.ns >= answer_ns // 2
            for sleep in assert_accounted(sample).sleeps
        )
    ]
    # Of a sleep that was missed it is not known in which call it was.
    missed = totals.lost.missed_events
    assert expected - missed <= len(polled) <= expected, [each.threads for each in samples]


@pytest.mark.parametrize("what", ["fork", "exec", "ring", "alarm", "end"])
def test_one_round_is_one_record_whatever_happens_in_it(
    start_workload: StartWorkload, what: str
) -> None:
    """Of what it forks, and of a thread that ends before it polls again, there is none."""
    work_ns = 30 * NS_PER_MS
    workload = start_workload("odd_rounds", what, work_ns)
    if not workload.ready["there"]:
        pytest.skip("this kernel lets no process have a ring of io_uring(7)")

    samples, totals, seen = asked(workload, RoundPlan(threshold_ns=work_ns))

    (sample,) = (
        without_waits_for_a_cpu(samples[:-1], work_ns) + samples[-1:]
        if what == "alarm"
        else samples
    )
    found = assert_accounted(sample)
    assert totals.long == len(samples)
    assert found.tid == workload.pid
    assert seen["inside_ns"] <= sample.window.duration_ns <= seen["outside_ns"]


def test_signal_handler_within_a_restarted_poll_is_a_round(start_workload: StartWorkload) -> None:
    """As long as it takes nothing else is answered."""
    threshold_ns = 10 * NS_PER_MS
    workload = start_workload("odd_rounds", "handler", threshold_ns)

    samples, _, _ = asked(workload, RoundPlan(threshold_ns=threshold_ns))

    in_handler, after = samples
    for sample in samples:
        assert assert_accounted(sample).tid == workload.pid
    found = in_handler.threads[0].time
    assert found is not None
    assert found.user_ns + found.unaccounted_ns >= threshold_ns
    assert in_handler.window.stop_ns < after.window.start_ns
