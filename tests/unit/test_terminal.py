"""The report on a terminal: colour, its width, and the culprit on the first screen."""

import os
import pty
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.states import worst_first
from kernel_delay.cli import main
from kernel_delay.commands.options.outputs import as_shown
from kernel_delay.model import (
    CpuTaker,
    Finding,
    HardIrqStats,
    Intervals,
    LockWait,
    Sample,
    Sleep,
    SoftIrqStats,
    SyscallStats,
    Thread,
    Waker,
)
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Color, Layout
from kernel_delay.reporters.recording_header import head_lines
from kernel_delay.reporters.terminal import has_columns, shown_on
from tests.recordings import HEADER, record_samples
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.samples import ACCOUNTED, EVERYTHING, bare_sample, timed_thread, window

WINDOW = window(duration_ns=500_000_000)
SCREEN = 50

# What a real one was measured to be that reads files and sleeps on a busy machine.
CALLS = (
    ("clock_nanosleep", 454_356_188, 5_350_095, 293_629_735, 155_376_358),
    ("read", 2_784_891, 2_784_891, 0, 0),
    ("openat", 2_598_321, 2_598_321, 0, 0),
    ("write", 606_001, 606_001, 0, 0),
    ("close", 464_446, 464_446, 0, 0),
    ("newfstatat", 230_307, 230_307, 0, 0),
)
INTERRUPT = Waker("hard_irq", 0, 0, "", 3, 9)
TAKERS = (82, 69, 58, 55, 18, 9, *(1,) * 7)

CULPRIT = replace(
    timed_thread(9000, "culprit", user=34, kernel=12, soft_irq=1, hard_irq=1, ready=298),
    preempted_ns=9_000_000,
    syscalls=tuple(
        SyscallStats(number, name, 500, total_ns, 9_000_000, (), on_cpu, ready, blocked, 0)
        for number, (name, total_ns, on_cpu, ready, blocked) in enumerate(CALLS)
    ),
    run=Intervals(516, 61_194_982, 27_245, 478_179),
    ready=Intervals(516, 298_000_000, 1_002, 12_836_776),
    hard_irqs=(HardIrqStats("virtio1-req.0", 47, 155_066, 22_089),),
    soft_irqs=tuple(
        SoftIrqStats(vector, name, 13, 98_272, 21_728)
        for vector, name in ((1, "timer"), (9, "rcu"))
    ),
    cpu_taken_by=tuple(
        CpuTaker(8000 + n, "hog", 65, ms * 1_000_000) for n, ms in enumerate(TAKERS)
    ),
    sleeps=(
        Sleep(
            "clock",
            "clock_nanosleep",
            (),
            False,
            500,
            12_000_000,
            9,
            (Waker("hard_irq", 0, 0, "", 3, 9),),
        ),
    ),
)
SHORT_STATES_NS = 1_000_000


def in_every_table() -> Thread:
    """The culprit, in each of the states, with more rows in each table than a screen has lines."""
    culprit = timed_thread(9000, "culprit", user=34, kernel=12, soft_irq=1, hard_irq=1, ready=298)
    states = ("stopped_ns", "throttled_ns", "frozen_ns", "guest_ns", "absent_ns", "unaccounted_ns")
    assert culprit.time is not None
    blocked_ns = culprit.time.blocked_ns - len(states) * SHORT_STATES_NS
    time = replace(culprit.time, blocked_ns=blocked_ns, **dict.fromkeys(states, SHORT_STATES_NS))
    intervals, many = Intervals(516, 61_194_982, 27_245, 478_179), range(60)
    return replace(
        culprit,
        time=time,
        preempted_ns=9_000_000,
        syscalls=tuple(
            SyscallStats(n, f"call{n}", 500, 9_000, 90, (5,), 300, 100, 500, 0, without_entry=1)
            for n in many
        ),
        long_poll=intervals,
        run=intervals,
        ready=intervals,
        stopped=intervals,
        hard_irqs=tuple(HardIrqStats(f"virtio{n}-req.0", 47, 155_066, 22_089) for n in many),
        soft_irqs=tuple(SoftIrqStats(n, f"soft{n}", 13, 98_272, 21_728) for n in many),
        cpu_taken_by=tuple(CpuTaker(8000 + n, "hog", 65, 4_900_000) for n in many),
        lock_waits=tuple(LockWait(1 << 40, 9001 + n, "owner", 3, 100_000) for n in many),
        sleeps=tuple(Sleep("unknown", f"call{n}", (), False, 5, 99, 9, (INTERRUPT,)) for n in many),
    )


SIXTY = tuple(timed_thread(100 + n, f"worker-{n}") for n in range(60))
VERDICT = Finding("cpu_contention", "other-process", 0.6, 9000, "culprit " + "had no CPU " * 18)
CROWD = bare_sample(*SIXTY[:31], CULPRIT, *SIXTY[31:], window=WINDOW, verdict=(VERDICT,))

# Whatever is to be seen of a report: the one of the manual's example, causes, events, a crowd.
ALL = {
    "everything": EVERYTHING,
    "accounted": ACCOUNTED,
    "events": WITH_EVENTS,
    "crowd": CROWD,
    "every table": bare_sample(in_every_table(), *SIXTY, window=WINDOW, verdict=(VERDICT,)),
}


ALL_OF_IT = {"events": True, "all_threads": True, "percentiles": True}


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as file:
        yield file
    os.close(master)


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with colours, whatever this test's own is."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("columns", [80, 88, 100])
def test_files_have_any_width_and_terminals_their_own(
    terminal: TextIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert has_columns(terminal, 88) == (columns >= 88)
    with (tmp_path / "report").open("w") as file:
        assert has_columns(file, 88)


def of_width(columns: int, **changes: object) -> Layout:
    return replace(Layout(width=columns, units="ns"), **changes)


def first_screen(report: str) -> list[str]:
    """What a reader sees without turning a page, under the report's head."""
    head = list(head_lines(HEADER, of_width(80)))
    return [*head, *report.splitlines()][:SCREEN]


@pytest.mark.parametrize("columns", [80, 132])
def test_culprit_among_sixty_sleepers_fits_the_first_screen(columns: int) -> None:
    report = text.render(CROWD, of_width(columns))
    blocks = re.split(r"\nculprit \(9000\).*\n", report)
    assert len(blocks) == 2
    culprit = blocks[1].split("\n\n")[0].splitlines()
    screen = first_screen(report)
    assert all(line in screen for line in culprit)
    assert culprit[-1].strip().startswith("clock, ")  # the last of its tables, [SLEEP]
    assert not any(name in report for name in ("worker-0", "worker-59"))
    assert "60 threads slept throughout: 60 worker-*" in report
    # With those that did nothing in between, as by name, it is not.
    by_name = text.render(CROWD, of_width(columns, order="name", all_threads=True))
    assert "culprit (9000)" in by_name
    assert all(f"worker-{n} (" in by_name for n in range(60))


@pytest.mark.parametrize("columns", [80, 132])
def test_culprit_with_every_table_fits_the_first_screen(columns: int) -> None:
    culprit = in_every_table()
    crowd = replace(CROWD, threads=(*SIXTY[:31], culprit, *SIXTY[31:]))
    report = text.render(crowd, of_width(columns))
    _, _, after = report.partition("\nculprit (9000): first rows (--all-rows shows all)\n")
    block = after.split("\n\n")[0].splitlines()
    assert all(line in first_screen(report) for line in block)
    titles = [line.split("]")[0] for line in block if line.startswith("  [")]
    assert len(titles) == 10
    assert "  [SYSCALL STATISTICS] 1 of 60 " in after
    # What is not shown is in sums, and nothing is left out of where the time went.
    accounted = after.partition("[TIME ACCOUNTING]")[2].partition("[SYSCALL TIME")[0]
    reported_ns = [int(row.split()[-2].replace(",", "")) for row in accounted.splitlines()[1:-1]]
    assert sum(reported_ns) == WINDOW.duration_ns
    assert re.search(r"TOTAL\( - poll\): +30000 +540,000\n", after)
    # All of it is there for who asks, and in a pipe.
    whole = text.render(crowd, of_width(columns, all_rows=True))
    for shown in (whole, text.render(crowd)):
        assert all(f"{call.name} " in shown for call in culprit.syscalls)
        assert all(f"{irq.name} " in shown for irq in culprit.hard_irqs)
        assert "(--all-rows" not in shown


@pytest.mark.parametrize("columns", [60, 80, 100, 132, 160, 200])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    "changes", [{}, {"events": True, "all_threads": True, "percentiles": True}]
)
def test_no_line_is_wider_than_the_terminal(
    name: str, columns: int, changes: dict[str, object]
) -> None:
    layout = of_width(columns, **changes)
    # Single calls and the summary have columns that are not folded.
    if not (name == "events" and columns < 80):
        lines = [*text.render(ALL[name], layout).splitlines(), *head_lines(HEADER, layout)]
        assert max(map(len, lines)) <= columns
    if columns >= 80:
        assert max(map(len, text.render(ALL[name], layout).splitlines())) <= columns


@pytest.mark.parametrize("columns", [80, 100, 132, 200])
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("units", ["auto", "ms"])
def test_no_line_is_wider_in_other_units(name: str, columns: int, units: str) -> None:
    layout = of_width(columns, units=units, percentiles=True)
    assert max(map(len, text.render(ALL[name], layout).splitlines())) <= columns


def words_of(report: str) -> list[str]:
    return sorted(report.split())


@pytest.mark.parametrize("style", [False, True])
def test_tables_stand_side_by_side_on_a_wide_terminal(style: bool) -> None:
    sample = replace(CROWD, threads=(in_every_table(),))
    coloured = {"style": lambda text, role: f"\x1b[1m{text}\x1b[0m"} if style else {}
    narrow = text.render(sample, of_width(159, all_rows=True, **coloured))
    wide = text.render(sample, of_width(160, all_rows=True, **coloured))
    assert words_of(wide) == words_of(narrow)
    assert len(wide.splitlines()) < 0.75 * len(narrow.splitlines())
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in wide.splitlines()]
    (start,) = {
        line.index("  [", 10) for line in lines if line.startswith("  [") and "  [" in line[10:]
    }
    assert start == (160 - 3) // 2 + 3
    # All that is in the second column begins there.
    blocks = lines[next(at for at, line in enumerate(lines) if line.startswith("  [")) :]
    block = blocks[: blocks.index("")]
    assert not any(line[start - 3 : start].strip() for line in block)


def test_a_wide_terminal_has_room_for_more_rows() -> None:
    sample = replace(CROWD, threads=(in_every_table(),))
    assert "1 of 60" in text.render(sample, of_width(132))
    assert "1 of 60" not in text.render(sample, of_width(200))


def test_times_on_a_terminal_have_three_digits_and_unit() -> None:
    report = text.render(CROWD, of_width(80, units="auto"))
    _, _, rows = report.partition("[SYSCALL STATISTICS]")
    heading, first, *_ = rows.splitlines()
    assert heading.split() == ["NUMBER", "COUNT", "TOTAL", "MAX"]
    assert first.split()[-4:] == ["454", "ms", "9.00", "ms"]


def test_headings_of_stacks_keep_their_right_edges() -> None:
    columns = "  TOTAL ns  COUNT  MAX ns  SYSCALL"
    assert of_width(80, units="auto").headings(columns) == "     TOTAL  COUNT     MAX  SYSCALL"
    assert of_width(80, units="ms").headings(columns) == "  TOTAL ms  COUNT  MAX ms  SYSCALL"
    assert Layout().headings(columns) == columns


@pytest.mark.parametrize(("units", "cell"), [("auto", "9,000,000"), ("ms", "9.000")])
def test_times_in_a_pipe_have_one_unit(units: str, cell: str) -> None:
    assert cell in text.render(CROWD, replace(Layout(), units=units))


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
@pytest.mark.parametrize("name", ["everything", "accounted", "crowd"])
def test_no_figure_is_lost_to_the_terminals_width(name: str, columns: int) -> None:
    def figures(layout: Layout) -> set[str]:
        words = text.render(ALL[name], layout).replace("(", " ").replace(")", " ").split()
        return {word for word in words if word[0].isdigit() and word != "0"}

    shown = figures(of_width(columns, all_rows=True))
    # On a terminal what is a row's figure need not be its total's too.
    assert figures(Layout()) <= shown


def test_columns_without_room_follow_below_with_the_names_again() -> None:
    report = text.render(CROWD, of_width(50, all_rows=True))
    rows = report.partition("  [SYSCALL TIME ACCOUNTING]\n")[2].splitlines()[:8]
    assert [row.split()[:2] for row in rows] == [
        ["NAME", "NUMBER"],
        ["clock_nanosleep", "0"],
        ["read", "1"],
        ["OTHERS:", "3,899,075"],
        ["NAME", "BLOCKED"],
        ["clock_nanosleep", "155,376,358"],
        ["read", "0"],
        ["OTHERS:", "0"],
    ]


def test_verdict_is_wrapped_on_a_terminal_but_not_piped() -> None:
    in_a_pipe = [line for line in text.render(CROWD).splitlines() if "VERDICT" in line]
    assert [len(line) > 200 for line in in_a_pipe] == [True, True]
    lines = text.render(CROWD, of_width(80)).splitlines()
    assert lines[4].startswith("#   ")
    words = " ".join(line.lstrip("# ") for line in lines[3:7])
    assert words.startswith(in_a_pipe[0][2:].rstrip())


def test_a_number_and_its_unit_stay_in_one_line() -> None:
    text = "The CPU idled for 17 % of the window, which is 353 ms, or for 353,000 µs"
    for width in range(20, 60):
        lines = of_width(width).wrapped(text)
        assert not any(line.startswith(("%", "ms", "µs")) for line in lines)
        assert " ".join(lines) == text


def test_colour_is_the_terminals_alone(terminal: TextIO) -> None:
    plain = text.render(CROWD, of_width(80))
    coloured = text.render(CROWD, shown_on(Layout(units="ns"), terminal))
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    by_word = {
        word: next(line for line in coloured.splitlines() if word in line)
        for word in ("VERDICT", "culprit (", "[SLEEP]", "hog", "slept throughout")
    }
    assert by_word["VERDICT"].startswith("\x1b[1;31m# VERDICT")
    assert by_word["culprit ("].startswith("\x1b[1;36m")
    assert "\x1b[1;36m" in by_word["[SLEEP]"]
    assert "\x1b" not in by_word["hog"] + by_word["slept throughout"]
    healthy = bare_sample(CULPRIT, window=WINDOW)
    assert "\x1b[1;32m# VERDICT: nothing kept" in text.render(healthy, shown_on(Layout(), terminal))


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_unwanted_or_unsupported_colour_is_absent(
    terminal: TextIO, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in text.render(CROWD, shown_on(Layout(), terminal))


@pytest.mark.parametrize(
    ("color", "environment", "colored"),
    [
        ("auto", {}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        ("auto", {"FORCE_COLOR": ""}, False),
        ("auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("always", {"TERM": "dumb"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
    ],
)
def test_a_pipe_has_colour_if_it_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    color: Color,
    environment: dict[str, str],
    colored: bool,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with (tmp_path / "report").open("w") as file:
        report = text.render(CROWD, as_shown(Layout(color=color), file))
    assert ("\x1b[1;31m# VERDICT" in report) == colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", report) == text.render(CROWD)


def test_never_has_no_colour_on_a_terminal(terminal: TextIO) -> None:
    assert "\x1b" not in text.render(CROWD, as_shown(Layout(color="never"), terminal))


@pytest.mark.parametrize("option", ["--color=always", "--color=never"])
def test_the_option_colours_what_report_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path = record_samples(tmp_path / "a.kdr", CROWD)
    assert main(["report", "--summary", option, str(path)]) == 0
    assert ("\x1b[1;31m# VERDICT" in capsys.readouterr().out) == option.endswith("always")


def test_the_width_is_what_columns_says(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "63")
    assert shown_on(Layout(), terminal).width == 63


def tids(threads: list[Thread]) -> list[int]:
    return [thread.tid for thread in threads]


def test_threads_are_sorted_by_time_lost_to_others() -> None:
    busy = timed_thread(1, "busy", user=500)
    waits = timed_thread(2, "waits", ready=20)
    stopped = timed_thread(3, "stopped", stopped=30)
    locked = replace(timed_thread(4, "locked"), lock_waits=(LockWait(8, 1, "busy", 1, 40_000_000),))
    sleeps = timed_thread(5, "sleeps")
    threads = (busy, waits, stopped, locked, sleeps)
    assert tids(worst_first(bare_sample(*threads))) == [4, 3, 2, 1, 5]
    # What the verdict says of a thread is what it lost; so is its own code, where that is all.
    slow = Finding("kernel_sleep", "kernel", 0.9, 5, "…", evidence={"lost_ns": 450_000_000})
    own = Finding("user_work", "program", 1, 1, "…", remark=True, evidence={"lost_ns": 500_000_000})
    assert tids(worst_first(bare_sample(*threads, verdict=(slow, own)))) == [5, 4, 3, 2, 1]
    assert tids(worst_first(bare_sample(*threads, verdict=(own,))))[0] == 1


def test_without_accounting_it_is_what_was_counted() -> None:
    order = [thread.name for thread in worst_first(EVERYTHING)]
    assert order[0] == "revalidator122"  # which was stopped, and waited
    assert order[1].startswith("a\x1b")  # which had interrupts


def test_only_threads_asleep_by_choice_are_summarised() -> None:
    accused = timed_thread(1, "accused")
    locked = replace(timed_thread(2, "locked"), lock_waits=(LockWait(8, 1, "x", 1, 40_000_000),))
    disk = replace(
        timed_thread(3, "disk"), sleeps=(Sleep("disk", None, (), True, 1, 500_000_000, 9),)
    )
    awake = timed_thread(4, "awake", user=1)
    finding = Finding("kernel_sleep", "kernel", 1, 1, "…", evidence={"lost_ns": 1})
    asleep = timed_thread(5, "pmd-c01/id:6")
    sample = bare_sample(accused, locked, disk, awake, asleep, window=WINDOW, verdict=(finding,))
    report = text.render(sample)
    for name in ("accused", "locked", "disk", "awake"):
        assert f"{name:16} [SYSCALL" in report
    assert "\n\n# 1 thread slept throughout: pmd-c01/id:6 (--all-threads shows them).\n" in report
    assert "pmd-c01/id:6     [SYSCALL" in text.render(sample, Layout(all_threads=True))


def test_a_line_tells_of_any_number_of_sleepers() -> None:
    many = [timed_thread(n, f"{'abcdefghijklmnopqrst'[n % 20]}{n}\n") for n in range(1, 4001)]
    report = text.render(bare_sample(*many, window=WINDOW))
    (line,) = (line for line in report.splitlines() if "slept throughout" in line)
    assert line.startswith("# 4,000 threads slept throughout: 200 b*\\x*a, ")
    assert "2,000 others" in line
    assert len(line) < 200


def test_head_names_the_machine_process_and_version() -> None:
    assert list(head_lines(HEADER, Layout())) == [
        "# kernel-delay 0.1.0 on compute-1, Linux 6.1.0-30-amd64 x86_64, 8 CPUs",
        "# Process 27090 (ovs-vswitchd): ovs-vswitchd --pidfile 'unix:db socket'",
        f"# Container {'ab' * 6} in pod 0c9fc2a3-8b1d-4f5e-9a51-7d3c2b1a0e9f",
    ]
    hostile = replace(HEADER.target, command_line=("a\n\x1b[31m", "b" * 5000), container=None)
    _, process = head_lines(replace(HEADER, target=hostile), Layout())
    assert "a\\x0a\\x1b[31m" in process
    assert len(process) < 300
    assert process.endswith("b…")


def test_that_no_call_was_seen_is_said_instead_of_a_table() -> None:
    report = text.render(replace(WITH_EVENTS, syscall_events=()))
    assert "# No system call that -s asks for was seen to begin and end in the window." in report
    assert "BY STACK" not in report


def test_calls_are_summed_up_by_stack_the_worst_first() -> None:
    again = [replace(event, tid=event.tid + 7) for event in WITH_EVENTS.syscall_events or ()]
    sample = replace(WITH_EVENTS, syscall_events=(*(WITH_EVENTS.syscall_events or ()), *again))
    section = text.render(sample).partition("# SYSTEM CALLS BY STACK")[2]
    assert section.startswith(":\n")
    lines = section.splitlines()[3:]
    rows = [row.split() for row in lines if re.match(r"^ +[\d,]+ +\d+ ", row)]
    assert rows == [
        ["2,000,174,104", "2", "1,000,087,052", "9999", "2", "threads"],
        ["191,430", "2", "95,715", "futex", "2", "threads"],
        ["113,610", "2", "56,805", "futex", "2", "threads"],
        ["2,000,479,144", "6", "1,000,087,052", "TOTAL:"],
    ]
    frames = [row for row in section.splitlines() if row.startswith("      ") and "+0x" in row]
    assert "      __GI___lll_lock_wait+0x30 [libc.so.6]" in frames
    # The way out of the kernel is that of all calls.
    assert not any("do_syscall_64" in frame for frame in frames)
    one = text.render(sample, Layout(top=1))
    assert "# SYSTEM CALLS BY STACK, THE WORST 1 OF 3:" in one
    assert "305,040          4          95,715  OTHERS:" in one
    assert "lll_lock_wait" not in one


def test_a_deep_stack_shows_its_ends() -> None:
    (frame, *_) = WITH_EVENTS.stacks[1]
    deep = tuple(replace(frame, name=f"f{n}") for n in range(100))
    events = (replace((WITH_EVENTS.syscall_events or ())[0], kernel_stack=None, user_stack=0),)
    report = text.render(replace(WITH_EVENTS, stacks=(deep,), syscall_events=events))
    shown = re.findall(r"^      (f\d+|…).*", report, re.MULTILINE)
    assert shown == [*(f"f{n}" for n in range(12)), "…", "f97", "f98", "f99"]
    assert "… 85 more …" in report


def test_calls_from_the_same_functions_are_one_stack() -> None:
    first, *_ = WITH_EVENTS.syscall_events or ()
    stack = WITH_EVENTS.stacks[1]
    moved = tuple(
        replace(frame, address=frame.address + 1, offset=frame.offset + 1) if frame.name else frame
        for frame in stack
    )
    other = tuple(replace(frame, name="other") for frame in stack)
    events = tuple(replace(first, kernel_stack=None, user_stack=n) for n in (0, 1, 2))
    report = text.render(replace(WITH_EVENTS, stacks=(stack, moved, other), syscall_events=events))
    counts = re.findall(r"^ +[\d,]+ +(\d+) +[\d,]+  (\S+)", report, re.MULTILINE)
    assert counts == [("2", "futex"), ("1", "futex"), ("3", "TOTAL:")]


def test_sixty_thousand_calls_are_ten_stacks() -> None:
    event, *_ = WITH_EVENTS.syscall_events or ()
    stacks = tuple((replace(WITH_EVENTS.stacks[1][0], name=f"Interpreter{n}"),) for n in range(40))
    events = [
        replace(event, tid=n % 7, kernel_stack=None, user_stack=n % 40) for n in range(60_000)
    ]
    report = text.render(replace(WITH_EVENTS, stacks=stacks, syscall_events=events))
    assert report.count("  futex") == 10
    assert len(report.partition("BY STACK")[2].splitlines()) == 3 + 2 * 10 + 2
    assert "# SYSCALL EVENTS:" not in report


@pytest.mark.parametrize("sample", [EVERYTHING, ACCOUNTED, CROWD])
def test_reports_begin_and_end_with_any_verdict(sample: Sample) -> None:
    for report in (text.render(sample), text.render(sample)):
        lines = report.splitlines()
        places = [n for n, line in enumerate(lines) if line.startswith("# VERDICT")]
        assert places == ([3, len(lines) - 1] if sample.threads[0].time else [])
