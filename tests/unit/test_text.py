"""The text report: the manual's layout, whatever the Sample holds."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from msgspec import structs

from kernel_delay.cli import main
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.model import (
    Finding,
    Lost,
    RecordedTarget,
    Sample,
    SkippedWindow,
    SyscallStats,
    Target,
    Thread,
    ThreadTime,
    TriggerHit,
    Untraced,
)
from kernel_delay.recording.writer import RecordingWriter
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from tests.recordings import header
from tests.unit.samples import (
    COUNTS,
    EVERYTHING,
    FITTING_COUNTS,
    FITTING_TIMES,
    REVALIDATOR,
    TIMED_WINDOW_NS,
    TIMES,
    bare_sample,
    bare_thread,
    samples,
    timed_thread,
    window,
)

IDLE = bare_thread(27090, "ovs-vswitchd")

GOLDEN = Path(__file__).parent / "golden"
INDENT = 28


@pytest.fixture
def two_hours_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of the manual's example, without need of a zone database."""
    monkeypatch.setenv("TZ", "CEST-2")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("two_hours_east")
def test_report_of_everything_is_the_golden_text() -> None:
    by_name = Layout(order="name")
    assert text.render(EVERYTHING, by_name) == (GOLDEN / "everything.txt").read_text()


def test_window_that_went_as_asked_has_no_remarks() -> None:
    report = text.render(bare_sample(REVALIDATOR))
    assert [line for line in report.splitlines() if line.startswith("#")] == (
        report.splitlines()[:3]
    )


def test_the_total_is_of_all_calls_but_polls() -> None:
    calls = [
        SyscallStats(0, "read", 3, 30, 10),
        *(SyscallStats(number, name, 1, 1000, 1000) for number, name in enumerate(POLLS, 1)),
        SyscallStats(426, "io_uring_enter", 1, 4, 4),
    ]
    thread = structs.replace(IDLE, syscalls=tuple(calls))
    (total,) = (
        line for line in text.render(bare_sample(thread)).splitlines() if "TOTAL( - poll):" in line
    )
    assert total.split()[-2:] == ["4", "34"]


def test_calls_of_another_abi_are_marked() -> None:
    calls = (
        SyscallStats(162, "nanosleep", 2, 9, 5, abi="i386"),
        SyscallStats(999, None, 1, 3, 3, abi="i386"),
        SyscallStats(35, "nanosleep", 1, 2, 2),
    )
    report = text.render(bare_sample(structs.replace(IDLE, syscalls=calls)))
    named = [
        line.split()[:2] for line in report.splitlines() if "nanosleep" in line or "999" in line
    ]
    assert named == [["i386:nanosleep", "162"], ["i386:999", "999"], ["nanosleep", "35"]]


def test_calls_without_entry_have_a_table_and_a_remark() -> None:
    calls = (
        SyscallStats(110, "getppid", 0, 0, 0, without_entry=1_234_567),
        SyscallStats(39, "getpid", 2, 9, 5, without_entry=3),
    )
    report = text.render(bare_sample(structs.replace(IDLE, syscalls=calls)))
    table = report.partition("[SYSCALLS WITHOUT ENTRY]")[2].splitlines()
    assert [line.split() for line in table[1:4]] == [
        ["NAME", "NUMBER", "COUNT"],
        ["getppid", "110", "1234567"],
        ["getpid", "39", "3"],
    ]
    remark = report.splitlines()[-1]
    assert remark.startswith("# 1,234,570 system calls had no entry: a seccomp filter or a tracer")
    statistics = report.partition("[SYSCALL STATISTICS]")[2].partition("[SYSCALLS WITHOUT")[0]
    assert "getppid" not in statistics


def said_of_missed(lost: Lost) -> str:
    (said,) = (
        line for line in text.render(bare_sample(IDLE, lost=lost)).splitlines() if "WARN" in line
    )
    return said.removeprefix("# WARNING: ")


def test_missed_events_say_their_kind_effect_and_reason() -> None:
    lost = Lost(
        missed_events=17,
        missed_calls=7,
        missed_switches=6,
        missed_wakeups=3,
        missed_context_switches=2,
        missed_others_switches=1,
        missed_threads=1,
        missed_interrupts=2,
        missed_by_recursion=4,
    )
    assert said_of_missed(lost) == (
        "17 kernel events were missed: 7 system calls or page faults, 3 wake-ups, 2 context"
        " switches and 2 interrupts. Also 1 context switch of another task, 1 event of an"
        " unknown thread and 1 of a kind that is not known. Counts and times of system calls,"
        " runs, waits for a CPU and interrupts may be too low. A thread's time from its last"
        " event before to the next one after is unaccounted where the scheduler's counts do not"
        " show what it did. Who had the CPU in a wait may be UNKNOWN. Why: the kernel skipped 4"
        " because the same program of kernel-delay ran on"
        " that CPU already (recursion); some may be of other processes. Why: 1 came while the"
        " thread's state was locked on that CPU, by an interrupted or another BPF program, or"
        " the thread's start was missed. Why the others were missed is not known."
    )


def test_missed_switches_of_others_leave_no_time_unaccounted() -> None:
    lost = Lost(missed_events=2, missed_switches=2, missed_others_switches=2)
    assert said_of_missed(lost) == (
        "2 kernel events were missed: context switches of other tasks. Who had the CPU in a wait"
        " may be UNKNOWN. Why they were missed is not known."
    )


AGENT = Untraced(123, "hv-agent", 12)


def test_process_that_no_program_runs_beside_is_a_reason() -> None:
    lost = Lost(missed_events=12, missed_switches=12, missed_others_switches=12, untraced=AGENT)
    assert said_of_missed(lost).endswith(
        " UNKNOWN. Why: 12 came while hv-agent (123) had the CPU. No tracing program runs here at"
        " such times: 12 switches to its threads were seen, and none from them."
    )


def test_what_that_process_does_not_explain_is_not_known() -> None:
    untraced = Untraced(123, "", 1)
    lost = Lost(missed_events=3, missed_switches=3, missed_wakeups=2, untraced=untraced)
    assert said_of_missed(lost).endswith(
        " Why: 1 came while process 123 of the initial PID namespace had the CPU. No tracing"
        " program runs here at such times: 1 switch to its threads was seen, and none from them."
        " Why the others were missed is not known; that reason may be theirs."
    )


def test_no_more_events_are_explained_than_were_missed() -> None:
    untraced = Untraced(1, "agent", 4)
    lost = Lost(missed_events=3, missed_switches=3, missed_others_switches=3, untraced=untraced)
    said = said_of_missed(lost)
    assert "3 kernel events were missed" in said
    assert "Why: 3 came while agent (1) had the CPU. No tracing program runs here at" in said
    assert "4 switches to its threads were seen, and none from them." in said


def test_losses_of_one_process_add_up() -> None:
    one, two = (Lost(missed_events=n, untraced=Untraced(1, "agent", n)) for n in (1, 2))
    assert one + two == Lost(missed_events=3, untraced=Untraced(1, "agent", 3))
    assert two - one == one
    assert one - one == Lost()
    assert one + Lost() == Lost() + one == one
    assert one - Lost() == one


def test_one_missed_event_is_named_as_one() -> None:
    assert said_of_missed(Lost(missed_events=1)).endswith(" Why it was missed is not known.")
    two = Lost(missed_events=2, missed_by_recursion=1)
    assert said_of_missed(two).endswith(" Why the other was missed is not known.")


CALLS, RUNS = "system calls", "runs and waits for a CPU"
ANY = f"{CALLS}, runs, waits for a CPU and interrupts"


@pytest.mark.parametrize(
    ("field", "one", "several", "too_low"),
    [
        ("missed_calls", "system call or page fault", "system calls or page faults", CALLS),
        ("missed_wakeups", "wake-up", "wake-ups", RUNS),
        ("missed_context_switches", "context switch", "context switches", RUNS),
        ("missed_switches", "other event of the scheduler", "other events of the scheduler", RUNS),
        ("missed_interrupts", "interrupt", "interrupts", "interrupts"),
        ("missed_threads", "event of an unknown thread", "events of unknown threads", ANY),
        ("missed_events", "of a kind that is not known", "of a kind that is not known", ANY),
    ],
)
def test_each_kind_of_missed_event_has_its_words(
    field: str, one: str, several: str, too_low: str
) -> None:
    is_switch = field in ("missed_wakeups", "missed_context_switches")
    for count, said in ((1, f"1 {one}"), (2, several)):
        lost = structs.replace(Lost(missed_events=count), **{field: count})
        if is_switch:
            lost = structs.replace(lost, missed_switches=count)
        found = said_of_missed(lost)
        assert f" missed: {said}." in found
        assert f"Counts and times of {too_low} may be too low." in found
        assert ("is unaccounted" in found) is (too_low != "interrupts")


def test_time_without_a_reason_has_a_remark() -> None:
    thread = timed_thread(7, "worker", unaccounted=250)
    gap = "What worker (7) did for 250.0 ms, 50 % of the window, is not known"
    assert f"# {gap}. A cgroup v1 freezer" in text.render(bare_sample(IDLE, thread))
    two = text.render(bare_sample(thread, structs.replace(thread, tid=8)))
    assert f"{gap}; 1 other thread alike." in two
    missed = text.render(bare_sample(thread, lost=Lost(missed_events=1)))
    assert gap not in missed


def test_missed_wakeups_make_no_call_too_low() -> None:
    lost = Lost(missed_events=2, missed_switches=2, missed_wakeups=2)
    said = said_of_missed(lost)
    assert "missed: wake-ups. Counts and times of runs and waits for a CPU may be too low." in said


def test_missed_events_of_old_recordings_have_known_kinds() -> None:
    said = said_of_missed(Lost(missed_events=5, missed_switches=3))
    assert said.startswith(
        "5 kernel events were missed: 3 other events of the scheduler and 2 of a kind that is not"
        " known."
    )


@pytest.mark.parametrize(
    "lost",
    [
        Lost(missed_events=10**9),
        Lost(missed_events=10**9, missed_threads=10**6, missed_by_recursion=10**6),
        Lost(
            missed_events=7,
            missed_calls=1,
            missed_switches=4,
            missed_wakeups=1,
            missed_context_switches=1,
            missed_others_switches=1,
            missed_threads=1,
            missed_interrupts=1,
        ),
    ],
)
def test_sentences_of_missed_events_have_thirty_words(lost: Lost) -> None:
    for sentence in said_of_missed(lost).split(". "):
        assert len(sentence.split()) <= 30, sentence


@pytest.mark.parametrize(
    ("sample", "remark"),
    [
        (
            bare_sample(IDLE, window=window("interrupt", 1_234_567)),
            "# Interrupted: the window ended after",
        ),
        (
            bare_sample(IDLE, window=window("exit")),
            "# Process 27090 (ovs-vswitchd) exited: the window ended after 499.7 ms.",
        ),
        (
            bare_sample(window=window("exit")),
            "# Process 27090 (ovs-vswitchd) had exited before the window began.",
        ),
        (bare_sample(), "# No thread began or ended anything"),
        (bare_sample(IDLE, lost=Lost(dropped_records=7)), "# WARNING: no room for 7 records"),
        (
            bare_sample(IDLE, lost=Lost(dropped_records=1)),
            "# WARNING: no room for 1 record of threads, system calls or interrupts: it is",
        ),
        (
            bare_sample(IDLE, lost=Lost(missed_triggers=1)),
            "# WARNING: 1 hit of the start trigger was missed:",
        ),
        (
            bare_sample(IDLE, lost=Lost(missed_triggers=1200)),
            "# WARNING: 1,200 hits of the start trigger were missed:",
        ),
        (bare_sample(IDLE, lost=Lost(upcalls=1)), "# WARNING: no room to count 1 upcall: it is"),
        (
            bare_sample(IDLE, lost=Lost(timeline_modes=1)),
            "# WARNING: the timeline had no room for 1 call or page fault: ",
        ),
        (bare_sample(IDLE, lost=Lost(missed_events=1)), "# WARNING: 1 kernel event was missed"),
        (bare_sample(IDLE, lost=Lost(missed_events=8)), "# WARNING: 8 kernel events were missed"),
        (
            bare_sample(IDLE, unseen=("page_faults",)),
            "# This kernel shows no page faults: the time of a program's page faults is in user.",
        ),
        (bare_sample(IDLE, unseen=("futex_owners",)), "# This kernel shows no futex owners: the"),
        (bare_sample(IDLE, lost=Lost(clamped_lengths=1)), "# WARNING: 1 interval was counted as 0"),
    ],
)
def test_each_remark_stands_alone_after_the_tables(sample: Sample, remark: str) -> None:
    lines = text.render(sample).splitlines()
    assert lines[-1].startswith(remark)
    assert lines[-2] == ""
    assert not any(line.startswith("#") for line in lines[3:-1])


def test_whole_second_keeps_its_microseconds() -> None:
    sample = bare_sample(window=window(duration_ns=274_873_000))  # ends at …23.000000
    assert text.render(sample).splitlines()[1].split()[3].endswith(":23.000000")


def test_headings_are_styled_as_such_and_nothing_else_is() -> None:
    def marks(line: str, role: str) -> str:
        return f"«{line}»" if role == "heading" else line

    marked = text.render(EVERYTHING, Layout(style=marks))
    assert marked.translate({ord("«"): None, ord("»"): None}) == text.render(EVERYTHING)
    for line in marked.splitlines():
        holds_heading = any(
            word in line for word in ("STATISTICS]", "TOTAL ns", "AVERAGE ns", "SPECIFIC", "----")
        )
        assert line.endswith("»") == holds_heading, line


@given(samples(COUNTS, TIMES))
def test_any_sample_renders_without_control_characters_or_forged_lines(sample: Sample) -> None:
    report = text.render(sample)
    lines = report.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    assert len(lines) == 5 + sum(map(expected_lines, sample.threads)) + max(
        0, len(sample.threads) - 1
    ) + expected_remarks(sample)


def expected_lines(thread: Thread) -> int:
    """How many lines the report of `thread` has, by the rules of the manual."""
    syscalls = 2 + len(thread.syscalls) + any(c.name != "poll" for c in thread.syscalls)
    run_and_ready = 6 + (thread.run is not None) + (thread.ready is not None)
    others = 4 * ((thread.long_poll is not None) + (thread.stopped is not None))
    irqs = sum(4 + len(rows) for rows in (thread.hard_irqs, thread.soft_irqs) if rows)
    return syscalls + run_and_ready + others + irqs


def is_unaccounted(thread: Thread) -> bool:
    time = thread.time
    return (
        time is not None
        and thread.threads == 1
        and 10 * time.unaccounted_ns >= sum(structs.astuple(time))
    )


def expected_remarks(sample: Sample) -> int:
    """How many lines of remarks, the blank one before them included."""
    remarks = [
        not sample.threads and sample.window.ended_by != "exit",
        sample.window.ended_by in ("interrupt", "exit", "timeout"),
        sample.lost.missed_triggers > 0,
        sample.lost.dropped_records > 0,
        sample.lost.missed_events > 0,
        not sample.lost.missed_events
        and not sample.lost.dropped_records
        and any(map(is_unaccounted, sample.threads)),
    ]
    return sum(remarks) + any(remarks)


@given(samples(FITTING_COUNTS, FITTING_TIMES))
def test_columns_hold_and_give_back_the_numbers(sample: Sample) -> None:
    threads = iter(sorted(sample.threads, key=lambda t: (t.name, t.tid)))
    lines = text.render(sample, Layout(order="name")).split("\n")[5:]
    for title, rows in sections(lines):
        if title == "[SYSCALL STATISTICS]":
            thread = next(threads)
            found = {
                cut(row, 21, 27, 29, 39, 41, 57, 59, 75) for row in rows if " - poll" not in row
            }
            assert found == {(c.number, c.count, c.total_ns, c.max_ns) for c in thread.syscalls}
        elif title == "[LONG POLL STATISTICS]":
            polls = thread.long_poll
            assert polls is not None
            average = polls.total_ns // polls.count
            assert [cut(row, 0, 10, 12, 28, 30, 46, 48, 64) for row in rows] == [
                (polls.count, average, polls.min_ns, polls.max_ns)
            ]
        elif title == "[THREAD RUN STATISTICS]":
            assert [cut(row, 0, 10, 12, 28, 30, 46, 48, 64) for row in rows] == [
                (r.count, r.total_ns, r.min_ns, r.max_ns) for r in [thread.run] if r
            ]
        elif title in ("[THREAD READY STATISTICS]", "[THREAD STOPPED STATISTICS]"):
            intervals = thread.ready if "READY" in title else thread.stopped
            assert [cut(row, 0, 10, 12, 28, 30, 46) for row in rows] == [
                (i.count, i.total_ns, i.max_ns) for i in [intervals] if i
            ]
        elif title == "[HARD IRQ STATISTICS]":
            assert {cut(row, 22, 32, 34, 50, 52, 68) for row in rows[:-1]} == {
                (i.count, i.total_ns, i.max_ns) for i in thread.hard_irqs
            }
        else:
            assert title == "[SOFT IRQ STATISTICS]"
            assert {cut(row, 21, 28, 30, 40, 42, 58, 60, 76) for row in rows[:-1]} == {
                (i.vector, i.count, i.total_ns, i.max_ns) for i in thread.soft_irqs
            }
    assert next(threads, None) is None


def sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The title and rows of each table, split as a reader by columns would."""
    starts = [n for n, line in enumerate(lines) if line.endswith(" STATISTICS]")]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        title = lines[start][lines[start].rindex("[") :]
        body = [line for line in lines[start + 2 : end] if line and not line.startswith("#")]
        assert all(line[:INDENT].isspace() for line in body)
        yield title, [line[INDENT:] for line in body]


def cut(row: str, *edges: int) -> tuple[int, ...]:
    """The numbers of a row between each pair of edges, which must be all it has there."""
    assert len(row) == edges[-1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple(int(row[start:end].replace(",", "")) for start, end in pairs)


def test_idle_thread_has_the_headings_from_the_manual() -> None:
    indent = " " * INDENT
    assert text.render(bare_sample(IDLE)).splitlines()[5:] == [
        "     27090 ovs-vswitchd     [SYSCALL STATISTICS]",
        indent + "NAME                 NUMBER       COUNT          TOTAL ns            MAX ns",
        "",
        indent + "[THREAD RUN STATISTICS]",
        indent + "SCHED_CNT           TOTAL ns            MIN ns            MAX ns",
        "",
        indent + "[THREAD READY STATISTICS]",
        indent + "SCHED_CNT           TOTAL ns            MAX ns",
    ]


START = TriggerHit("up:bridge_run", 100, "ovs-vswitchd")
STOP = TriggerHit("ur:bridge_run", 100, "ovs-vswitchd")


def headings(changes: dict[str, Any]) -> list[str]:
    """The report's `# …` lines, without their times, of a window changed so."""
    sample = bare_sample(IDLE)
    changed = msgspec.structs.replace(sample.window, **changes)
    report = text.render(msgspec.structs.replace(sample, window=changed))
    return [line.split(" @")[0] for line in report.splitlines() if line.startswith("#")]


def test_triggered_window_names_its_hits_times() -> None:
    boundaries = {"start_ns": 2245245505301745, "stop_ns": 2245245506911119, "duration_ns": 1609374}
    assert headings({**boundaries, "start_trigger": START, "stop_trigger": STOP}) == [
        "# Start sampling (trigger@2245245505301745)",
        "# Stop sampling (trigger@2245245506911119)",
        "# Triggered sample dump, stop-start delta 1,609,374 ns",
    ]
    assert headings({**boundaries, "start_trigger": START}) == [
        "# Start sampling (trigger@2245245505301745)",
        "# Stop sampling",
        "# Sample dump",
    ]
    assert headings({**boundaries, "stop_trigger": STOP})[:2] == [
        "# Start sampling",
        "# Stop sampling (trigger@2245245506911119)",
    ]


def test_threads_that_are_summed_up_are_said_to_be() -> None:
    many = structs.replace(bare_thread(0, "worker"), exited=True, threads=8000)
    report = text.render(bare_sample(many))
    assert "         0 worker, 8,000 threads that ended [SYSCALL STATISTICS]" in report
    assert "So many threads ended that those of one name are summed up" in report


def test_skipped_window_is_three_lines() -> None:
    changes = {"start_trigger": START, "stop_trigger": STOP}
    window = msgspec.structs.replace(
        bare_sample(IDLE).window, start_ns=1000, stop_ns=314386, duration_ns=313386, **changes
    )
    report = text.render_skipped(SkippedWindow(window))
    assert len(report.splitlines()) == 3
    assert "# Sample dump skipped, delta 313,386 ns @" in report


def test_what_is_left_of_several_processes_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All others have exited: the window is of one alone, and not of the first."""
    nginx = RecordedTarget(4790, "nginx", None)
    path = tmp_path / "a.kdr"
    with RecordingWriter(path, header("capture", others=(nginx,))) as writer:
        writer.sample(bare_sample(target=Target(4790, "nginx", None)))
        writer.finish("done")
    for form in ("--text", "--summary"):
        assert main(["report", form, str(path)]) == 0
        _, of_sample = capsys.readouterr().out.split("# Sample dump")
        assert "\n# Process 4790 (nginx)\n" in of_sample


def test_held_is_all_that_held_a_thread() -> None:
    held = timed_thread(1, "held", user=250, stopped=50, throttled=100, frozen=25)
    sample = bare_sample(held, window=window(duration_ns=TIMED_WINDOW_NS))
    heading, line, legend = text.render_summary(sample).splitlines()[4:7]
    assert heading.split()[-1] == "HELD"
    assert line.split()[-2] == "35.0"
    assert "S stopped, T throttled, F frozen" in legend


def test_the_legend_has_the_letters_of_the_bars() -> None:
    brief = timed_thread(1, "brief", user=499, tool=1)
    sample = bare_sample(brief, window=window(duration_ns=TIMED_WINDOW_NS))
    assert "# Bars: U user." in text.render_summary(sample)


def test_many_ended_threads_of_a_name_are_a_row_of_the_summary() -> None:
    requests = [
        structs.replace(timed_thread(tid, "request", user=2, ready=1, absent=497), exited=True)
        for tid in range(100, 150)
    ]
    few = [structs.replace(thread, tid=thread.tid + 100, name="few") for thread in requests[:2]]
    main = timed_thread(1, "main", ready=400)
    accused = Finding("cpu_contention", "other-process", 0.1, 120, "…")
    sample = bare_sample(
        main, *requests, *few, window=window(duration_ns=TIMED_WINDOW_NS), verdict=(accused,)
    )
    rows = [line for line in text.render_summary(sample).splitlines() if line.endswith("|")]
    assert [row.split()[:2] for row in rows] == [
        ["1", "main"],
        ["0", "request"],
        ["200", "few"],
        ["201", "few"],
        ["120", "request"],
    ]
    (together,) = (row for row in rows if " x49 " in row)
    assert together.split()[3:7] == ["19.6", "0.0", "0.0", "9.8"]
    each = text.render_summary(sample, Layout(all_threads=True))
    assert len([line for line in each.splitlines() if line.endswith("|")]) == 53


@pytest.mark.parametrize(
    ("threads", "cells"),
    [
        (1, "   0.0   0.0   0.0  40.0  60.0   0.0"),
        (30, "   0.0   0.0   0.0  1200  1800   0.0"),
        (4096, "   0.0   0.0   0.0 163840 245760   0.0"),
    ],
)
def test_shares_of_many_threads_stay_apart(threads: int, cells: str) -> None:
    thread = timed_thread(7, "request", ready=200)
    assert thread.time is not None
    of_all = ThreadTime(*(threads * ns for ns in structs.astuple(thread.time)))
    thread = structs.replace(thread, time=of_all, threads=threads, tid=0, exited=True)
    report = text.render_summary(
        bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)), Layout(all_threads=True)
    )
    assert f"{cells} |" in report
