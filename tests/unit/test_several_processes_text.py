"""Several processes in one report: an overview first, and all of them ranked together."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.processes import as_one, merged, ranked
from kernel_delay.analysis.verdict import judge
from kernel_delay.cli import main
from kernel_delay.commands.options import outputs
from kernel_delay.model import (
    Container,
    Finding,
    Lost,
    PageFaults,
    RecordedTarget,
    Sample,
    Slice,
    Target,
)
from kernel_delay.recording.writer import RecordingWriter
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.processes import together
from kernel_delay.reporters.recording_header import head_lines
from tests.recordings import header
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

EVERY_WIDTH = [None, 80, 100, 200]


def no_cpu(pid: int, share: float, takers: str = "cc1 ran for 40 % of that") -> Finding:
    """A process waited for a CPU for that share of the window."""
    lost_ns = round(share * TIMED_WINDOW_NS)
    sentence = (
        f"the main thread postgres ({pid}) could run but had no CPU for {lost_ns / 1e6:,.1f} ms,"
        f" {100 * share:.0f} % of the window; meanwhile {takers}."
    )
    return Finding("cpu_contention", "other-process", share, pid, sentence)


def backend(pid: int, title: str, ready_ms: int) -> Sample:
    """One of PostgreSQL's, which waited for a CPU for that long."""
    findings = (no_cpu(pid, ready_ms / 500),) if ready_ms else ()
    return bare_sample(
        timed_thread(pid, "postgres", ready=ready_ms),
        target=Target(pid, "postgres", None, command_line=(f"postgres: {title}",)),
        verdict=findings,
        window=window(duration_ns=500_000_000),
        lost=Lost(missed_events=7),
    )


def of_one_window(*samples: Sample) -> list[Sample]:
    """With how many they are."""
    return [replace(sample, processes=len(samples)) for sample in samples]


CLUSTER = of_one_window(
    backend(101, "checkpointer", 0),
    backend(102, "app shop [local] UPDATE waiting", 150),
    backend(103, "app shop [local] SELECT", 250),
    backend(104, "app shop [local] idle in transaction", 200),
)


def reported(samples: Sequence[Sample], width: int | None = None, *, tables: bool = False) -> str:
    """The summary of the window, or its whole report."""
    render = text.render if tables else text.render_summary
    sample, processes = together(samples)
    return render(sample, Layout(width=width), processes)


@pytest.mark.parametrize("tables", [False, True])
def test_several_processes_have_one_time_header(tables: bool) -> None:
    report = reported(CLUSTER, tables=tables)
    assert report.count("# Start sampling") == 1
    assert report.count("kernel events were missed") == 1
    assert "# 4 processes: 4 postgres\n" in report


@pytest.mark.parametrize("tables", [False, True])
def test_threads_of_all_processes_stand_worst_first(tables: bool) -> None:
    report = reported(CLUSTER, tables=tables)
    overview = [line for line in report.splitlines() if "| postgres: " in line]
    assert [line.split()[0] for line in overview] == ["103", "104", "102"]
    assert overview[0].endswith("| postgres: app shop [local] SELECT")
    assert "1 thread slept throughout: postgres: checkpointer" in report


def test_each_thread_of_the_tables_stands_below_its_process() -> None:
    lines = reported(CLUSTER, tables=True).splitlines()
    first = lines.index("# Process 103 (postgres): postgres: app shop [local] SELECT")
    assert lines[first + 1].startswith("       103 postgres         [SYSCALL STATISTICS]")
    second = lines.index("# Process 104 (postgres): postgres: app shop [local] idle in transaction")
    assert second > first


def test_verdicts_of_all_processes_are_ranked_together() -> None:
    report = reported(CLUSTER)
    verdicts = [line for line in report.splitlines() if line.startswith("# VERDICT: ")]
    assert len(verdicts) == 1
    assert verdicts[0] == (
        "# VERDICT: process 103 (app shop [local] SELECT): the main thread postgres (103) could"
        " run but had no CPU for 250.0 ms, 50 % of the window; meanwhile cc1 ran for 40 % of that."
        " The same in 2 other processes: 104 (40 %), 102 (30 %)."
    )


def test_findings_that_differ_in_figures_and_their_own_thread_are_one() -> None:
    def found(pid: int, sentence: str, title: str = "app", rule: str = "lock") -> Sample:
        finding = Finding(
            *(rule, "program", 0.5, pid, f"{sentence} {pid}; more."),
            remark=rule != "lock",
            sentence=sentence,
        )
        return bare_sample(
            timed_thread(pid, "writer"),
            timed_thread(pid + 1, "other"),
            target=Target(pid, "app", None, command_line=("app:", title)),
            verdict=(finding,),
        )

    def groups(*samples: Sample) -> list[int]:
        return sorted(1 + len(each.others) for each in ranked(samples))

    said = "waited for 5.5 ms of 9 s"
    assert groups(found(10, f"writer (10) {said}"), found(20, f"writer (20) {said}")) == [2]
    assert groups(found(10, f"writer (10) {said}"), found(20, f"other (21) {said}")) == [1, 1]
    assert groups(found(10, "x took 5 ms"), found(20, "x took 1,234.5 µs")) == [2]
    assert groups(found(10, "x took 5 ms"), found(20, "y took 5 ms")) == [1, 1]
    # What a process that waits calls itself says what it waits for.
    for rule in ("wait_pipe", "asleep"):
        jobs = [found(10 * n, f"w {n}", f"job {n}", rule) for n in (1, 2)]
        assert groups(*jobs) == [2]
        calls = [found(10, "w 1", title, rule) for title in ("read", "write")]
        assert groups(*calls) == [1, 1]
    assert groups(found(10, "w 1", "read"), found(20, "w 2", "write")) == [2]
    # Two roots of one process are not the same in another one.
    first, other = found(10, "server 1 was stopped"), found(20, "server 3 was stopped")
    (worse,) = first.verdict
    both = replace(first, verdict=(worse, replace(worse, tid=11, sentence="server 2 was stopped")))
    assert groups(both) == [1, 1]
    assert groups(both, other) == [1, 2]


def test_slices_of_all_processes_are_one_sequence() -> None:
    def slices(tid: int, count: int) -> tuple[Slice, ...]:
        return tuple(Slice(tid, "running", n, n + 1, "user", None, 0) for n in range(count))

    samples = [replace(CLUSTER[0], timeline=slices(pid, count)) for pid, count in ((1, 3), (2, 2))]
    found = as_one(samples).timeline
    assert found is not None
    whole = (*slices(1, 3), *slices(2, 2))
    assert (len(found), tuple(found)) == (5, whole)
    assert [found[at] for at in range(-5, 5)] == [whole[at] for at in range(-5, 5)]
    assert (found[1:4], found[::-2], found[7:]) == (whole[1:4], whole[::-2], ())
    for at in (5, -6):
        with pytest.raises(IndexError):
            found[at]


def test_windows_of_a_cut_recording_are_merged_too() -> None:
    two = [replace(sample, processes=2) for sample in CLUSTER[:2]]
    later = replace(two[0], window=replace(two[0].window, start_ns=two[0].window.stop_ns))
    whole, rest = merged([*two, later])
    assert [thread.tid for thread in whole.threads] == [101, 102]
    assert [thread.tid for thread in rest.threads] == [101]


def test_another_finding_of_a_rule_has_its_own_line() -> None:
    first, second = (
        replace(
            backend(pid, "writer", 100),
            verdict=(Finding("lock", "program", share, pid, f"w ({pid}) waited for {lock}."),),
        )
        for pid, share, lock in ((1, 0.2, "the lock of a"), (2, 0.4, "the lock of b"))
    )
    report = reported(of_one_window(first, second))
    verdicts = [line for line in report.splitlines() if line.startswith("# VERDICT: ")]
    assert [verdict.split(":")[1] for verdict in verdicts] == [
        " process 2 (writer)",
        " process 1 (writer)",
    ]
    assert "nothing kept" not in report


def test_nothing_found_is_said_once_of_all() -> None:
    healthy = of_one_window(backend(1, "a", 400), backend(2, "b", 400))
    report = reported([replace(sample, verdict=()) for sample in healthy])
    assert report.count("VERDICT: nothing kept a thread from its work for long.") == 1


@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_of_several_is_wider_than_the_terminal(width: int, tables: bool) -> None:
    long = backend(105, "app shop 10.1.2.3(4711) " + "SELECT " * 30 + "waiting", 100)
    report = reported(of_one_window(*CLUSTER, long), width, tables=tables)
    assert max(map(len, report.splitlines())) <= width
    row = next(line for line in report.splitlines() if line.startswith("    105 "))
    assert row.endswith("SELECT waiting")


@pytest.mark.parametrize("width", EVERY_WIDTH)
def test_a_thread_beside_others_is_named_with_its_process(width: int | None) -> None:
    java = bare_sample(
        timed_thread(7, "java"),
        timed_thread(8, "G1 Main", ready=90),
        target=Target(7, "java", None, command_line=("/usr/lib/jvm/bin/java", "-jar", "shop.jar")),
    )
    report = reported(of_one_window(java, backend(9, "idle", 0)), width)
    assert "G1 Main of 7 java -jar shop.jar\n" in report


def test_pid_of_a_threads_process_is_never_cut() -> None:
    title = "/usr/bin/python3 /srv/" + "long/" * 20 + "worker.py --queue mail"
    worker = bare_sample(
        timed_thread(4711, "main"),
        timed_thread(4712, "worker", ready=90),
        target=Target(4711, "main", None, command_line=(title,)),
    )
    report = reported(of_one_window(worker, backend(9, "idle", 0)), 80)
    row = next(line for line in report.splitlines() if line.startswith("   4712 "))
    assert "worker of 4711 python" in row
    assert row.endswith("--queue mail")
    assert len(row) == 79


def test_a_process_without_title_has_its_name() -> None:
    nameless = replace(backend(5, "x", 60), target=Target(5, "a\x1b[31mb", None))
    report = reported(of_one_window(nameless, backend(6, "x", 0)))
    assert "process 5 (a\\x1b[31mb): the main thread" in report
    assert "\x1b" not in report


def test_containers_are_named_once_with_their_processes() -> None:
    shop = Container("docker", "ab" * 32, None, "shop")
    samples = [
        replace(sample, target=replace(sample.target, container=shop if number else None))
        for number, sample in enumerate(CLUSTER)
    ]
    report = reported(samples)
    assert report.count("# Container shop (abababababab) of docker: 102, 103, 104\n") == 1


def test_ranks_of_many_processes_stay_a_line() -> None:
    many = of_one_window(*(backend(pid, "x", 400 - pid) for pid in range(100, 150)))
    verdict = next(line for line in reported(many).splitlines() if line.startswith("# VERDICT"))
    assert "The same in 49 other processes: 101 (60 %)" in verdict
    assert verdict.endswith("105 (59 %) and 44 others.")


def test_threads_that_were_summed_up_are_of_no_process() -> None:
    ended = replace(timed_thread(0, "worker", ready=90), exited=True, threads=800)
    summed = bare_sample(ended, target=Target(0, "", None))
    report = reported(of_one_window(*CLUSTER, summed), tables=True)
    assert "# 4 processes: 4 postgres\n" in report
    assert "| worker, 800 threads that ended\n" in report
    assert "# Process 0" not in report


def test_the_exit_of_all_processes_is_said_once() -> None:
    ended = [replace(sample, window=window(ended_by="exit")) for sample in CLUSTER]
    report = reported(ended)
    assert report.count("# All processes that were asked for exited: the window ended after") == 1


def test_the_head_names_several_processes_in_a_line() -> None:
    others = tuple(RecordedTarget(pid, "nginx", None, (f"nginx: {pid}",)) for pid in range(2, 14))
    _, line = head_lines(header("capture", others=others), Layout())
    assert line.startswith("# Processes 27090 (ovs-vswitchd), 2 (nginx), 3 (nginx), ")
    assert line.endswith("10 (nginx) and 3 others")


def test_a_title_in_the_head_has_no_quotes() -> None:
    master = RecordedTarget(1, "nginx", None, ("nginx: master process nginx -p /srv",))
    _, line = head_lines(header("capture", target=master), Layout())
    assert line == "# Process 1 (nginx): nginx: master process nginx -p /srv"


@pytest.mark.parametrize("form", ["--text", "--summary"])
def test_a_recording_has_the_same_text_window_by_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    first = CLUSTER[0].window
    stop_ns = first.stop_ns + first.duration_ns
    later = replace(first, start_ns=first.stop_ns, stop_ns=stop_ns)
    second = [replace(sample, window=later) for sample in CLUSTER]
    path = tmp_path / "a.kdr"
    with RecordingWriter(path, header("capture", others=(RecordedTarget(2, "b", None),))) as writer:
        for sample in (*CLUSTER, *second):
            writer.sample(sample)
        writer.finish("done")
    with ExitStack() as stack:
        reports = outputs.open_reports(
            None, None, stack, Layout(named=True), summary=form == "--summary"
        )
        for sample in (*CLUSTER, *second):
            outputs.report_to_all(reports, sample)
    live = capsys.readouterr().out

    assert main(["report", form, str(path)]) == 0

    assert live.count("# Start sampling") == 2
    assert capsys.readouterr().out.endswith(live)


def test_partial_window_of_a_cut_recording_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    with RecordingWriter(path, header("capture")) as writer:
        for sample in CLUSTER[1:]:
            writer.sample(sample)
        writer.finish("done")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    assert main(["report", "--summary", str(path)]) == 65

    report = capsys.readouterr().out
    assert "# 3 processes: 3 postgres\n" in report
    assert report.count("# VERDICT: ") == 1


def waiting(pid: int, title: str, share: float = 1.0, others: tuple[Finding, ...] = ()) -> Sample:
    """A backend that slept for that share of the window, beside what else was found of it."""
    sentence = f"the main thread postgres ({pid}) slept in epoll_wait for {500 * share:,.1f} ms."
    unknown = "Whether it had work to do is not known."
    remark = Finding(
        rule="asleep",
        who="program",
        share=share,
        tid=pid,
        text=f"{sentence} {unknown}",
        remark=True,
        sentence=sentence,
        details=(unknown,),
    )
    return replace(backend(pid, title, 0), verdict=(*others, remark))


IDLE = [waiting(n, title) for n, title in enumerate(("checkpointer", "wal2writer", "launcher"), 1)]
STALLED = [waiting(pid, "app shop [local] UPDATE waiting", 0.98) for pid in (21, 22)]


def said(samples: Sequence[Sample]) -> list[str]:
    """The lines of the verdict, in a pipe."""
    lines = reported(of_one_window(*samples)).splitlines()
    return [line for line in lines if line.startswith(("# VERDICT", "# REMARK"))]


def test_processes_that_waited_share_a_line_below_a_finding() -> None:
    starved = backend(31, "app shop [local] SELECT", 250)
    finding, remark = said([*IDLE, *STALLED, starved])
    assert finding.startswith("# VERDICT: process 31 (app shop [local] SELECT): ")
    assert remark == (
        "# REMARK: 5 processes only waited, for 98 to 100 % of the window. Whether they had work to"
        " do is not known. They are: 2 app shop [local] UPDATE waiting, checkpointer, wal2writer"
        " and 1 other."
    )


def test_process_without_cpu_is_not_only_waiting() -> None:
    starved = waiting(31, "app shop [local] SELECT", 0.5, (no_cpu(31, 0.5),))
    finding, remark = said([*IDLE, starved])
    assert finding.startswith("# VERDICT: process 31 ")
    assert remark.startswith("# REMARK: 4 processes waited for 50 to 100 % of the window. ")


def test_stalled_processes_stand_above_the_others_that_waited() -> None:
    stalled, idle = said([*IDLE, *STALLED])
    assert stalled.startswith("# VERDICT: process 21 (app shop [local] UPDATE waiting): ")
    assert stalled.endswith(" The same in 1 other process: 22 (98 %).")
    assert idle.startswith("# REMARK: 3 other processes only waited, for 100 % of the window. ")


def test_processes_that_waited_for_another_are_named_by_themselves() -> None:
    chained = [chained_to(pid, 0.5 + pid / 1000) for pid in (11, 12, 13, 14)]
    found = said([*IDLE, *chained])
    assert [line.partition(":")[2].split()[1] for line in found[:3]] == ["14", "13", "12"]
    # The first has the title of what was found worst; the others are remarks.
    assert found[3].startswith("# REMARK: 4 processes only waited, for 51 to 100 % of the window.")
    assert len(found) == 4


def test_one_process_that_waited_is_no_crowd() -> None:
    starved = backend(31, "app shop [local] SELECT", 250)
    one = waiting(2, "wal2writer")
    (slept,) = one.verdict
    second = replace(slept, sentence="worker slept in poll.")
    _, remark = said([replace(one, verdict=(slept, second)), starved])
    assert remark == (
        "# REMARK: process 2 (wal2writer) only waited, for 100 % of the window. Whether it had work"
        " to do is not known."
    )


def test_processes_named_to_wait_are_not_counted_again() -> None:
    both = [
        replace(each, verdict=(*each.verdict, replace(each.verdict[0], sentence=f"worker {n}.")))
        for n, each in enumerate(STALLED)
    ]
    stalled, other = said([*IDLE[:1], *both])
    assert stalled.startswith("# VERDICT: process 21 ")
    assert other.startswith("# REMARK: process 1 (checkpointer) only waited, for 100 %")


def test_measured_process_is_no_advice() -> None:
    (finding,) = chained_to(11, 0.5).verdict
    advice = "To see what it does: kernel-delay -p 12 --chains"
    finding = replace(
        finding, text=f"{finding.text} {advice}", advice=advice, evidence={"end_pid": 12}
    )
    first = replace(chained_to(11, 0.5), verdict=(finding,))
    assert advice in "".join(said([first, backend(13, "x", 0)]))
    assert advice not in "".join(said([first, backend(12, "x", 0)]))


def test_chains_to_different_processes_are_not_the_same() -> None:
    samples = [waiting(pid, "worker", 0.5) for pid in (11, 12)]
    for roots, count in (((70, 71), 2), ((70, 70), 1)):
        found = [
            replace(
                each,
                verdict=(replace(each.verdict[0], rule="wait_chain", evidence={"root_pid": r}),),
            )
            for each, r in zip(samples, roots, strict=True)
        ]
        assert len(ranked(found)) == count


def chained_to(pid: int, share: float) -> Sample:
    """A process that waited for another for that share, which has a title of its own."""
    made = waiting(pid, f"worker of kind {'abcd'[pid % 4]}", share)
    (finding,) = made.verdict
    return replace(made, verdict=(replace(finding, rule="wait_chain_end", who="other-process"),))


def test_the_overview_of_several_processes_stands_first() -> None:
    for tables in (False, True):
        report = reported(CLUSTER, tables=tables)
        assert report.index("PROCESS OR THREAD") < report.index("# VERDICT: ")


def ended(
    pid: int, name: str, ready_ms: int, *, is_known: bool = False, user_ms: int = 2
) -> Sample:
    """One that ended in the window, before its arguments were read unless they are known."""
    absent_ms = 500 - ready_ms - user_ms
    thread = timed_thread(pid, name, user=user_ms, ready=ready_ms, absent=absent_ms)
    target = Target(pid, name, None, command_line=(name, "-n") if is_known else ())
    measured = bare_sample(
        replace(thread, exited=True), target=target, window=window(duration_ns=500_000_000)
    )
    return judge(measured)


def test_ended_processes_of_a_name_are_one() -> None:
    seds = [ended(200 + number, "sed", 30 if number == 7 else 1) for number in range(30)]
    expr = ended(300, "expr", 1)
    known = ended(301, "sed", 1, is_known=True)
    samples = of_one_window(backend(101, "checkpointer", 0), *seds, expr, known)
    report = reported(samples, tables=True)
    assert "# 33 processes: 31 sed, 1 postgres, 1 expr" in report
    overview = [line.split("| ")[1] for line in report.splitlines() if "|U" in line or "|-" in line]
    assert sorted(overview) == ["expr", "sed (30 processes)", "sed -n"]
    assert (
        "# VERDICT: sed (30 processes) could run but had no CPU for 59.0 ms in all, 12 % of the"
        " window. sed (207) lost most of it, 30.0 ms."
    ) in report
    assert "process 207" not in report


def test_ended_processes_that_ran_at_once_have_no_share_of_the_window() -> None:
    seds = [ended(200 + number, "sed", 200) for number in range(4)]
    report = reported(of_one_window(backend(101, "checkpointer", 0), *seds))
    assert (
        "sed (4 processes) could run but had no CPU for 800.0 ms in all. sed (200) lost the longest"
        " part of it, 200.0 ms."
    ) in report
    # 8 ms in the program, and those 800, of 500.
    (row,) = (line for line in report.splitlines() if line.endswith(" sed (4 processes)"))
    assert row.split()[:5] == ["0", "1.6", "0.0", "0.0", "160.0"]


def test_page_faults_of_ended_processes_are_a_sum() -> None:
    compilers = []
    for number in range(20):
        sample = ended(200 + number, "cc1", 0)
        faults = PageFaults(100 + number, 3_000_000, 0)
        (thread,) = sample.threads
        compilers.append(replace(sample, threads=(replace(thread, page_faults=faults),)))
    measured = of_one_window(backend(101, "checkpointer", 0), *compilers)
    said, _ = together(measured)
    (finding,) = (each for each in said.verdict if each.rule == "page_faults")
    assert finding.text.startswith("2,190 page faults kept cc1 (20 processes) for 60.0 ms in all")
    assert finding.evidence["faults"] == 2190


@pytest.mark.parametrize("user_ms", [40, 10])
def test_own_code_of_ended_processes_is_a_remark(user_ms: int) -> None:
    """Those of a compiler, for which make waits."""
    compilers = [ended(200 + number, "cc1", 1, user_ms=user_ms) for number in range(10)]
    report = reported(of_one_window(backend(101, "checkpointer", 0), *compilers))
    said = "cc1 (10 processes) were in their own code for 400.0 ms in all."
    assert (said in report) == (user_ms == 40)


def test_ended_processes_that_slept_are_not_one_that_slept_long() -> None:
    slept = [
        replace(each, threads=(timed_thread(each.target.pid, "sed", absent=450),), verdict=())
        for each in (ended(200 + number, "sed", 1) for number in range(9))
    ]
    slept = [
        replace(each, threads=tuple(replace(thread, exited=True) for thread in each.threads))
        for each in slept
    ]
    assert "slept for" not in reported(of_one_window(backend(101, "checkpointer", 400), *slept))
