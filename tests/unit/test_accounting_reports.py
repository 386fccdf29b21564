"""Where the time went, as text: tables, percentiles, the summary and the verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.model import CpuTaker, LockWait, Sample, Sleep, SyscallStats, Waker
from kernel_delay.reporters import json as json_reporter
from kernel_delay.reporters import overview, text
from kernel_delay.reporters.layout import Layout
from tests.unit.samples import ACCOUNTED, EVERYTHING, bare_sample, timed_thread, window

WINDOW = window(duration_ns=500_000_000)


def section(report: str, title: str) -> list[str]:
    """The rows of the report's first table of that title, its columns first."""
    lines = report.splitlines()
    (start,) = [n for n, line in enumerate(lines) if line.endswith(title)][:1]
    end = next((n for n in range(start, len(lines)) if not lines[n].strip()), len(lines))
    return [line[28:] for line in lines[start + 1 : end]]


def of_revalidator(sample: Sample) -> Sample:
    return bare_sample(sample.threads[0], window=WINDOW, verdict=sample.verdict)


def test_time_accounting_names_all_parts_and_their_shares() -> None:
    assert section(text.render(of_revalidator(ACCOUNTED)), "[TIME ACCOUNTING]") == [
        "STATE                         TOTAL ns        %",
        "user                       250,000,000   50.000",
        "kernel, syscalls            46,000,000    9.200",
        "kernel, page faults          4,000,000    0.800",
        "hard irq                     1,000,000    0.200",
        "ready, woken                 7,000,000    1.400",
        "ready, preempted            80,000,000   16.000",
        "blocked                    112,000,000   22.400",
        "TOTAL:                     500,000,000  100.000",
    ]


def test_calls_in_flight_are_only_in_the_accounting_table() -> None:
    report = text.render(of_revalidator(ACCOUNTED))
    assert not any("poll" in row for row in section(report, "[SYSCALL STATISTICS]")[:-1])
    assert [row.split() for row in section(report, "[SYSCALL TIME ACCOUNTING]")[1:]] == [
        ["poll", "7", "0", "7,000,000", "100,000,000", "0"],
        ["recvmsg", "47", "45,000,000", "5,000,000", "0", "0"],
    ]


def test_who_had_the_cpu_and_the_locks() -> None:
    report = text.render(of_revalidator(ACCOUNTED))
    assert [row.split() for row in section(report, "[CPU TAKEN BY]")[1:]] == [
        ["stress\\x1b", "4321", "90", "79,000,000", "90.805"],
        ["idle", "0", "12", "5,000,000", "5.747"],
        ["OTHERS:", "2,000,000", "2.299"],
        ["UNKNOWN:", "1,000,000", "1.149"],
    ]
    assert [row.split() for row in section(report, "[LOCK WAITS]")[1:]] == [
        ["revalidator123", "31742", "3", "12,000,000", "0x55a9887c50a0"],
        ["revalidator124", "31743", "40", "5,000,000", "several"],
        ["OTHERS:", "700,000"],
    ]


def test_tables_of_causes_sum_up_their_hidden_rows() -> None:
    """More rows than a table has are summed up in its last."""
    takers = tuple(CpuTaker(tid, "hog", 1, 1000) for tid in range(1, 31))
    locks = tuple(LockWait(8 * tid, tid, "owner", 1, 1000) for tid in range(1, 31))
    crowd = replace(ACCOUNTED.threads[0], cpu_taken_by=takers, lock_waits=locks)
    report = text.render(bare_sample(crowd, window=WINDOW))
    assert section(report, "[CPU TAKEN BY]")[-2].split()[:2] == ["OTHERS:", "2,020,000"]
    assert section(report, "[LOCK WAITS]")[-1].split() == ["OTHERS:", "720,000"]


def test_sleeps_are_listed_by_reason_and_main_waker() -> None:
    writer = Waker("thread", 42, 40, "writer\x1b", 3, 9_000_000)
    timer = Waker("hard_irq", 0, 0, "", 1, 1_000_000)
    disk = Waker("soft_irq", 0, 0, "", 2, 2_000_000)
    sleeps = (
        Sleep("pipe", "read", ("pipe_read",), False, 4, 10_000_000, 5, (timer, writer)),
        Sleep("disk", "fsync", ("submit_bio_wait",), True, 1, 1_000_000, 5, (disk,)),
        Sleep("disk", "fsync", ("__wait_on_buffer",), True, 1, 1_000_000, 5, (disk,)),
        Sleep("page_cache", None, ("filemap_fault",), True, 1, 500_000, 5),
        Sleep("short", None, (), False, 7, 400, 0),
    )
    thread = replace(ACCOUNTED.threads[0], sleeps=sleeps)
    rows = section(text.render(bare_sample(thread, window=WINDOW)), "[SLEEP]")
    assert [" ".join(row.split()) for row in rows[1:]] == [
        "pipe, read 4 10,000,000 writer\\x1b (42)",
        "disk, fsync 2 2,000,000 a soft IRQ",
        "page cache 1 500,000",
        "short 7 400",
    ]
    crowd = tuple(Sleep("pipe", f"call{i}", (), False, 1, 1000, 5, (writer,)) for i in range(30))
    report = text.render(bare_sample(replace(thread, sleeps=crowd), window=WINDOW))
    assert section(report, "[SLEEP]")[-1].split() == ["OTHERS:", "20", "20,000"]


def test_takers_of_little_cpu_share_one_row() -> None:
    shares = (60, 29, 2, 1, 1, 1)
    takers = tuple(CpuTaker(n, f"hog{n}", 1, n * 870_000) for n in shares)
    crowd = replace(ACCOUNTED.threads[0], cpu_taken_by=takers, cpu_taken_by_others_ns=0)
    report = text.render(bare_sample(crowd, window=WINDOW))
    rows = [row.split()[0] for row in section(report, "[CPU TAKEN BY]")[1:]]
    assert rows == ["hog60", "hog29", "hog2", "OTHERS:", "UNKNOWN:"]


def test_short_calls_share_one_row_of_the_account() -> None:
    calls = [
        SyscallStats(n, f"call{n}", 1, ns, ns, (), ns, 0, 0, 0)
        for n, ns in enumerate((990_000, 6_000, 3_000, 1_000))
    ]
    thread = replace(ACCOUNTED.threads[0], syscalls=tuple(calls))
    report = text.render(bare_sample(thread, window=WINDOW))
    rows = section(report, "[SYSCALL TIME ACCOUNTING]")[1:]
    assert [row.split() for row in rows] == [
        ["call0", "0", "990,000", "0", "0", "0"],
        ["OTHERS:", "10,000", "0", "0", "0"],
    ]


def test_unaccounted_time_of_calls_has_a_column_if_any() -> None:
    call = SyscallStats(7, "poll", 1, 9, 9, (), 1, 2, 3, 0, unaccounted_ns=3)
    thread = replace(ACCOUNTED.threads[0], syscalls=(call,))
    columns, row = section(
        text.render(bare_sample(thread, window=WINDOW)), "[SYSCALL TIME ACCOUNTING]"
    )
    assert columns.endswith("UNACCOUNTED ns")
    assert row.split() == ["poll", "7", "1", "2", "3", "0", "3"]


def test_percentiles_stand_only_where_asked_for() -> None:
    report = text.render(of_revalidator(ACCOUNTED), Layout(percentiles=True))
    columns, *rows = section(report, "[PERCENTILES]")
    assert columns.replace(" ns", "").split() == ["NAME", "COUNT", "P50", "P90", "P99", "MAX"]
    assert [row[:20].rstrip() for row in rows] == ["recvmsg", "THREAD RUN"]
    assert (rows[0].split()[1], rows[0].split()[-1]) == ("7", "9,000,000")
    assert "[PERCENTILES]" not in text.render(ACCOUNTED)


def test_verdict_frames_the_tables_and_is_escaped() -> None:
    assert text.render(ACCOUNTED).splitlines()[3] == "# VERDICT: no CPU for \\x1b a while."
    assert text.render(ACCOUNTED).splitlines()[-2:] == [
        "",
        "# VERDICT: no CPU for \\x1b a while.",
    ]
    healthy = bare_sample(timed_thread(1, "a", user=400), window=WINDOW)
    assert text.render(healthy).splitlines()[-1].startswith("# VERDICT: nothing kept")
    # Whether who waited had work is not known: nothing acquits it.
    wait = replace(ACCOUNTED.verdict[0], rule="wait_pipe", text="waited.", remark=True)
    own = replace(wait, rule="user_work", text="was busy.")
    lines = text.render(replace(ACCOUNTED, verdict=(wait, own))).splitlines()
    assert lines[-3:] == ["", "# VERDICT: waited.", "# REMARK: was busy."]
    lines = text.render(replace(ACCOUNTED, verdict=(own,))).splitlines()
    # Another thread slept for a third of the window.
    assert lines[-2].startswith("# VERDICT: no cause of a delay was found. ovs-vswitchd (27090)")
    assert "VERDICT" not in text.render(EVERYTHING)


def test_summary_has_a_line_per_thread_most_lost_first() -> None:
    report = text.render_summary(ACCOUNTED)
    lines = report.splitlines()
    assert [line.split()[1] for line in lines[5:7]] == ["revalidator122", "ovs-vswitchd"]
    assert lines[5].split()[2:8] == ["50.0", "10.0", "0.2", "17.4", "22.4", "0.0"]
    assert lines[5].endswith("|" + "U" * 8 + "K" * 2 + "R" * 3 + "B" * 4 + "|")
    assert lines[7].startswith("# Bars: U user, K kernel,")
    assert lines[3] == lines[-1] == "# VERDICT: no CPU for \\x1b a while."


def test_summary_fits_80_columns_with_long_names_and_shares() -> None:
    ended = replace(timed_thread(0, "worker", user=500), threads=1_234_567)
    longest = timed_thread(4_194_303, "fifteen-letters", stopped=500)
    lines = text.render_summary(bare_sample(ended, longest, window=WINDOW)).splitlines()
    rows = [line for line in lines if line.endswith("|")]
    assert [len(row) for row in rows] == [79, 79]
    assert "work x1,234,567 100.0" in rows[1]
    assert "fifteen-letters   0.0" in rows[0]


@given(st.dictionaries(st.sampled_from("UKIRBS-?"), st.integers(0, 1 << 62)))
def test_bar_has_constant_width_and_rounds_each_letter(parts: dict[str, int]) -> None:
    found = overview.bar(parts)
    assert len(found) == overview.BAR_WIDTH
    whole = sum(parts.values())
    for letter, part in parts.items():
        if whole:
            assert abs(found.count(letter) - overview.BAR_WIDTH * part / whole) < 1


@pytest.mark.parametrize("render", [text.render, text.render_summary, json_reporter.render])
def test_every_report_of_it_is_printable(render: object) -> None:
    assert callable(render)
    lines = render(ACCOUNTED).removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
