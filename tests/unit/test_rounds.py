"""What is said of long rounds: a line each, a page on a terminal, and the sum at the end."""

import datetime
import io

import pytest
from msgspec.structs import replace
from rich.console import Console, Group

from kernel_delay.analysis.rounds import main_cause, ran_functions
from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    LockWait,
    LogLine,
    LogMissing,
    Lost,
    OtherThread,
    ProfiledStack,
    Round,
    RoundTotals,
    Sample,
    Sleep,
    StackFrame,
    SyscallEvent,
    TaskTimes,
    Thread,
    ThreadRounds,
    Waker,
)
from kernel_delay.reporters import live, text
from kernel_delay.reporters.layout import IN_A_PIPE
from kernel_delay.reporters.rounds import (
    dump_lines,
    line,
    open_lines,
    profile_lines,
    round_lines,
    summary_lines,
)
from tests.unit.samples import START_TIME, TIMED_WINDOW_NS, bare_sample, timed_thread, window

THREADS = (
    ThreadRounds(31, "handler4", (0,) * 10 + (90, 10), 3000, 1_000_000, "futex"),
    ThreadRounds(32, "urcu\x1b2", (0,) * 32, 0, None, "poll"),
    ThreadRounds(0, "pool", (0,) * 20 + (1,), 1_500_000),
)


def totals(missed_events: int = 0, **changes: int) -> RoundTotals:
    fields = {"time_ns": 4_000_000, "long": 9, "reported": 9, "missed": 0}
    return RoundTotals(
        threads=THREADS, lost=Lost(missed_events=missed_events), **(fields | changes)
    )


def sample_of(thread: Thread, **of_round: object) -> Sample:
    sample = bare_sample(thread, window=window("poll", TIMED_WINDOW_NS))
    round_ = Round(thread.tid, thread.name, number=7)
    return judge(replace(sample, round=replace(round_, **of_round)))


SLEEP = Sleep(
    "clock", "clock_nanosleep", ("hrtimer_nanosleep",), False, 1, 480 * 10**6, 480 * 10**6, ()
)


@pytest.mark.parametrize(
    ("thread", "cause"),
    [
        (timed_thread(31, "handler4", ready=400), "could run but had no CPU for 400.0 ms"),
        (timed_thread(31, "handler4", stopped=450), "was stopped for 450.0 ms"),
        (timed_thread(31, "handler4", user=499), "499.0 ms"),
        (
            replace(timed_thread(31, "handler4", user=20), sleeps=(SLEEP,)),
            "waited for a time to pass in clock_nanosleep for 480.0 ms, 96 % of the round",
        ),
        (
            replace(
                timed_thread(31, "handler4", user=20),
                sleeps=(
                    replace(SLEEP, wakers=(Waker("thread", 77, 70, "friend", 1, 480 * 10**6),)),
                ),
            ),
            "for 480.0 ms, 96 % of the round. friend (77) of process 70 ended 100 % of that",
        ),
    ],
)
def test_why_a_round_was_long_is_said_in_sentences(thread: Thread, cause: str) -> None:
    assert cause in main_cause(sample_of(thread))


def test_advice_for_a_round_names_no_option_watch_lacks() -> None:
    lock = LockWait(0x1000, 32, "urcu2", 3, 480 * 10**6)
    futex = replace(SLEEP, reason="futex", syscall="futex")
    sample = sample_of(
        replace(timed_thread(31, "handler4", user=20), sleeps=(futex,), lock_waits=(lock,))
    )
    (finding,) = (each for each in sample.verdict if each.rule == "lock")
    assert finding.advice is None
    event = SyscallEvent(31, 202, "futex", 0, 480 * 10**6, 0, None, None)
    (finding, *_) = judge(replace(sample, syscall_events=(event,))).verdict
    assert finding.advice is not None
    assert finding.advice.startswith("SYSTEM CALLS BY STACK in its report shows where in")
    (finding, *_) = judge(replace(sample, round=None)).verdict
    assert finding.advice is not None
    assert finding.advice.startswith("Option -s ")


def test_report_of_many_short_waits_has_their_stack() -> None:
    close = replace(SLEEP, reason="rcu", syscall="close", stack=("synchronize_rcu", "fput"))
    waits = replace(close, count=397, max_ns=1_200_000)
    thread = replace(timed_thread(31, "handler4", user=20), sleeps=(waits,))
    report = text.render(replace(sample_of(thread), syscall_events=()))
    assert "# SYSTEM CALLS BY STACK" not in report
    assert "No system call of the round took a tenth of the threshold" in report
    rows = report.partition("# SLEEPS BY STACK, IN THE KERNEL:\n")[2].splitlines()[2:5]
    assert rows[0].split() == ["480,000,000", "397", "1,200,000", "rcu,", "close"]
    assert [row.strip() for row in rows[1:]] == ["synchronize_rcu", "fput"]


PIPE = replace(SLEEP, reason="pipe", syscall="read", stack=("anon_pipe_read",))


@pytest.mark.parametrize(
    ("thread", "rule"),
    [
        (replace(timed_thread(31, "handler4", user=20), sleeps=(SLEEP,)), "wait_clock"),
        (replace(timed_thread(31, "handler4", user=20), sleeps=(PIPE,)), "wait_pipe"),
        (
            replace(
                timed_thread(31, "handler4", user=499),
                task_times=TaskTimes(499_000_000, 0, 0, 0),
            ),
            "user_work",
        ),
    ],
)
def test_remark_of_a_window_is_a_finding_in_rounds(thread: Thread, rule: str) -> None:
    sample = sample_of(thread)
    (finding,) = sample.verdict
    assert (finding.rule, finding.remark) == (rule, False)
    assert "% of the round" in finding.text
    report = text.render(sample)
    assert "window" not in report
    assert f"# VERDICT: {finding.text}" in report
    as_window = judge(replace(sample, round=None))
    assert all(each.remark for each in as_window.verdict)
    assert all("% of the window" in each.text for each in as_window.verdict)


def test_line_has_thread_length_and_the_ovs_log() -> None:
    thread = timed_thread(31, "hand\x1bler", ready=400)
    said = line(sample_of(thread, log=LogLine(START_TIME, "handler4", 499)))
    assert "hand\\x1bler (31)  500.0 ms [log: 499 ms, 10:17:22.725 UTC]  " in said
    assert "\x1b" not in said
    assert "\n" not in said


def test_line_has_both_ends_of_the_round() -> None:
    sample = sample_of(timed_thread(31, "handler4", ready=400))
    began = sample.window.start_time.astimezone().replace(tzinfo=None)
    ended = began + datetime.timedelta(milliseconds=500)
    begin, end = began.isoformat(" ", "milliseconds"), ended.time().isoformat("milliseconds")
    assert line(sample).startswith(f"{begin} to {end}  handler4")


@pytest.mark.parametrize(
    ("missing", "in_line", "in_report"),
    [
        (
            "stopped",
            " [log: no line; stopped as its poll returned] ",
            "Open vSwitch logged no line of it: the thread was stopped as its poll returned, and"
            " Open vSwitch measures from after that.",
        ),
        ("ready", "; without a CPU as its poll returned]", "the thread was without a CPU as its"),
        ("not_found", " [log: no line] ", "No line of Open vSwitch's log was found for it."),
    ],
)
def test_missing_log_line_is_explained(missing: LogMissing, in_line: str, in_report: str) -> None:
    sample = sample_of(timed_thread(31, "handler4", stopped=490), log_missing=missing)
    assert in_line in line(sample)
    assert in_report in "\n".join(round_lines(sample))


def test_log_line_of_several_rounds_is_called_that() -> None:
    thread = timed_thread(31, "urcu2", throttled=490)
    said = "\n".join(round_lines(sample_of(thread, log=LogLine(START_TIME, "urcu2", 620))))
    assert "620 ms" in said
    assert "This round is a part of those: Open vSwitch polled a descriptor in between." in said


def test_report_names_the_thread_and_what_others_did() -> None:
    others = tuple(OtherThread(100 + i, f"t{i}", 10**9 - i, i, "futex") for i in range(12))
    sample = sample_of(
        timed_thread(31, "handler4", user=499),
        suppressed=3,
        others=others,
        others_stop_ns=600_000_000,
        log=LogLine(START_TIME, "handler4", 499, 490, 2),
    )
    lines = list(round_lines(sample))
    assert lines[0].startswith("Round 7 of handler4 (31), from a poll's return to the next poll")
    assert lines[1].startswith("Why: ")
    assert "499 ms (490 ms user, 2 ms system)" in lines[2]
    assert lines[3].startswith("3 more rounds were long")
    assert lines[4] == "Other threads, in the 600.0 ms around it:"
    assert len(lines) == 5 + 8 + 1
    assert lines[-1].startswith("  and 4 more")
    report = text.render(sample)
    assert all(f"# {said}" in report for said in lines)


def test_report_says_when_soft_irq_measurement_began() -> None:
    thread, late_ns = timed_thread(31, "handler4", user=499), window().start_ns + 150_000_000
    said = "\n".join(round_lines(sample_of(thread, soft_irqs_start_ns=late_ns)))
    assert "Soft IRQs are measured from 150.0 ms of the round on" in said
    assert "Soft IRQs" not in "\n".join(round_lines(sample_of(thread)))
    # Of one that slept there is nothing to tell.
    slept = sample_of(timed_thread(31, "handler4", user=4), soft_irqs_start_ns=late_ns)
    assert "Soft IRQs" not in "\n".join(round_lines(slept))


def test_steal_time_of_a_round_is_reported_and_blamed() -> None:
    def taken(steal_ns: int | None) -> Sample:
        times = TaskTimes(499_000_000, 0, 0, 0, steal_ns)
        return sample_of(replace(timed_thread(31, "handler4", user=499), task_times=times))

    stolen = taken(100_000_000)
    said = "\n".join(round_lines(stolen))
    assert "The hypervisor took 100.0 ms of its time on CPUs, in user and kernel." in said
    (finding,) = (each for each in stolen.verdict if each.rule == "steal")
    assert "for 100.0 ms, 20 % of the round" in finding.text
    for steal_ns in (4_000_000, None):
        assert "hypervisor" not in "\n".join(round_lines(taken(steal_ns)))


def frame(name: str | None, object_: str) -> StackFrame:
    return StackFrame(0x1000, name, 4, f"/usr/lib/{object_}")


def test_profile_names_the_programs_function_that_ran() -> None:
    libc, slow = frame("memcmp", "libc.so.6"), frame("xlate\x1b", "ovs-vswitchd")
    stacks = ((libc, slow), (slow,), (libc, frame(None, "ovs-vswitchd")), ())
    sample = replace(
        sample_of(
            timed_thread(31, "handler4", user=499),
            profile=(
                ProfiledStack(50, 0),
                ProfiledStack(30, 2),
                ProfiledStack(15, 1, 3),
                ProfiledStack(5, None),
            ),
            profile_hz=199,
            profile_start_ns=window().start_ns + 60_000_000,
        ),
        stacks=stacks,
    )
    assert [(each.name, each.samples) for each in ran_functions(sample)] == [
        ("xlate\x1b", 65),
        ("ovs-vswitchd at 0x1000", 30),
    ]
    assert " It ran mostly in xlate\x1b." in main_cause(sample)
    lines = list(profile_lines(sample, IN_A_PIPE))
    assert "100 SAMPLES, 199 IN A SECOND ON A CPU, FROM 60.0 ms OF THE ROUND ON" in lines[2]
    assert lines[5].split() == ["65", "65.000", "xlate\\x1b"]
    assert "memcmp+0x4 [libc.so.6]" in lines[6]


def sampled(*counted: tuple[int, tuple[StackFrame, ...]]) -> Sample:
    """A round of which each of these stacks was seen so often."""
    return replace(
        sample_of(
            timed_thread(31, "handler4", user=499),
            profile=tuple(ProfiledStack(count, place) for place, (count, _) in enumerate(counted)),
            profile_hz=199,
            profile_start_ns=window().start_ns,
        ),
        stacks=tuple(stack for _, stack in counted),
    )


def test_half_of_the_samples_is_not_most_of_them() -> None:
    first, other = frame("xlate", "ovs-vswitchd"), frame("lookup", "ovs-vswitchd")
    half = sampled((20, (first,)), (19, (other,)), (1, ()))
    assert main_cause(half).endswith(" It ran most often in xlate: 50 % of the samples.")
    assert main_cause(sampled((21, (first,)), (19, (other,)))).endswith(" It ran mostly in xlate.")


def test_nameless_code_is_reported_by_its_caller() -> None:
    """Each sample in it is at another address."""
    caller = frame("lua_pcall", "redis-server")
    nameless = [replace(frame(None, "redis-server"), address=0x1000 + n) for n in range(30)]
    found = sampled(*((1, (code, nameless[0], caller)) for code in nameless))
    assert [(each.name, each.samples) for each in ran_functions(found)] == [
        ("redis-server, called by lua_pcall", 30)
    ]
    assert main_cause(found).endswith(" It ran mostly in redis-server, called by lua_pcall.")


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        ([("memcmp", "libc.so.6"), (None, "libc-2.31.so")], "memcmp"),
        ([(None, "libc.so.6"), ("read", "libpthread.so.0")], "unknown code"),
        ([], "unknown code"),
        ([(None, "")], "code at 0x1000"),
        ([(None, "redis-server")], "redis-server at 0x1000"),
        ([("gettime", "[vdso]"), (None, "ld-linux-x86-64.so.2"), ("main", "app")], "main"),
    ],
)
def test_what_ran_is_named_as_far_as_it_is_known(
    stack: list[tuple[str | None, str]], expected: str
) -> None:
    found = sampled((1, tuple(frame(name, object_) for name, object_ in stack)))
    assert [each.name for each in ran_functions(found)] == [expected]


def test_the_sum_names_what_was_not_recorded() -> None:
    said = "\n".join(summary_lines(totals(long=27, missed=2, suppressed=9, missed_events=5), 1))
    assert "7 long rounds were not recorded any more" in said
    assert "9 of 27 long rounds were not recorded" in said
    assert "no room for 2 long rounds" in said
    assert "1 recording could not be written" in said
    assert "5 kernel events were missed" in said
    said = "\n".join(
        summary_lines(totals(long=3, reported=1, missed=1, suppressed=1, missed_events=1))
    )
    assert "1 of 3 long rounds was not recorded" in said
    assert "no room for 1 long round:" in said
    assert "1 kernel event was missed" in said
    assert "any more" not in said
    whole = list(summary_lines(totals()))
    assert [row.split()[:3] for row in whole[1:]] == [
        ["pool", "ended", "1"],
        ["handler4", "31", "100"],
    ]


def test_long_round_still_open_is_reported_at_the_end() -> None:
    (said,) = open_lines(totals(), 3_000_000)
    assert said == "handler4 (31): a round has been open for 3.0 ms, and has no record; now: futex"
    assert not list(open_lines(totals(), 3_000_001))


def test_a_percentile_that_is_estimated_says_so() -> None:
    """Of few rounds the 99th is the longest; that of the middle is known by a power of two."""
    few = ThreadRounds(31, "handler4", (0,) * 10 + (5, 1), 3000)
    one = ThreadRounds(32, "urcu2", (0,) * 10 + (1,), 1900)
    many = ThreadRounds(33, "main", (0,) * 10 + (150,), 1500)
    rows = summary_lines(replace(totals(), threads=(few, one, many)))
    cells = {row.split()[0]: row.split()[3:] for row in list(rows)[1:]}
    assert cells["handler4"] == ["~1.6", "µs", "3.0", "µs", "3.0", "µs"]
    assert cells["urcu2"] == ["1.9", "µs"] * 3
    assert cells["main"] == ["~1.3", "µs", "~1.5", "µs", "1.5", "µs"]


def test_a_dump_has_each_thread_and_its_open_round() -> None:
    said = list(dump_lines(totals(long=1)))
    assert said[0] == "2 threads, 1 long round"
    assert "handler4 (31): futex; 100 rounds, one open for 3.0 ms" in said
    assert "urcu\\x1b2 (32): poll; 0 rounds" in said


def shown_on(page: live.Contents, width: int, height: int) -> str:
    """What is on a terminal of that size."""
    file = io.StringIO()
    Console(file=file, width=width).print(Group(*page.parts(width, height)))
    return file.getvalue()


@pytest.mark.parametrize("height", [10, 24, 50])
def test_verdict_is_whole_on_80_columns(height: int) -> None:
    page = live.Contents("watching")
    many = tuple(ThreadRounds(n, f"t{n}", (1,), 1) for n in range(1, 31))
    page.update(replace(totals(), threads=many))
    waker = Waker("thread", 77, 70, "friend", 1, 480 * 10**6)
    sleeps = (replace(SLEEP, wakers=(waker,)),)
    thread = replace(timed_thread(31, "handler4", user=20), sleeps=sleeps)
    for _ in range(9):
        page.add(sample_of(thread))
    lines = shown_on(page, 80, height).splitlines()
    assert len(lines) <= height
    assert max(map(len, lines)) <= 80
    said = " ".join(" ".join(lines).split())
    assert said.endswith("ended 100 % of that time.")
    assert " ".join(line(sample_of(thread)).split()) in said
    assert (said.count("ended 100 %") == live.MOST_RECORDS) == (height == 50)


def test_the_page_shows_rates_and_the_last_records() -> None:
    page = live.Contents("watching \x1b")
    page.update(totals())
    more = replace(THREADS[0], lengths=(0,) * 10 + (190, 10))
    page.update(replace(totals(time_ns=1_004_000_000), threads=(more, *THREADS[1:])))
    for _ in range(20):
        page.add(sample_of(timed_thread(31, "handler4", ready=400)))
    shown = shown_on(page, 120, 50)
    (row,) = (row for row in shown.splitlines() if row.startswith("handler4"))
    assert row.split()[:3] == ["handler4", "31", "100"]
    assert "9 records of 9 long rounds" in shown
    assert shown.count("could run but had no CPU") == live.MOST_RECORDS
    assert "\x1b" not in shown
