"""Logs of Open vSwitch and OVN: their forms, the rounds in them, and what these were long of."""

import bz2
import datetime
import gzip
import lzma
import os
import random
import shutil
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.commands.log import files, survey
from kernel_delay.commands.log.causes import Usage, cause_of
from kernel_delay.commands.log.files import Reader, find, in_order
from kernel_delay.commands.log.findings import findings
from kernel_delay.commands.log.lines import Line, Zone, parse
from kernel_delay.commands.log.rounds import LongRound, Rounds
from kernel_delay.commands.log.survey import LogSurvey, class_of, program_of
from tests.unit.quoted_logs import QUOTED, Quoted
from tests.workload import HANGS_S

UTC = datetime.UTC
ZONE = Zone(UTC, datetime.datetime(2026, 3, 1, tzinfo=UTC))
CET = Zone(datetime.timezone(datetime.timedelta(hours=1)), ZONE.newest)
LONG = "Unreasonably long 2000ms poll interval (100ms user, 50ms system)"
WORDS = 30

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


def vlog(second: float, number: int, module: str, message: str, level: str = "WARN") -> str:
    """A line as vlog writes it to a file."""
    time = datetime.datetime(2026, 2, 3, 4, 5, tzinfo=UTC) + datetime.timedelta(seconds=second)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03}"
    return f"{stamp}Z|{number:05}|{module}|{level}|{message}"


def of_usage(usage: Usage, thread: str = "", second: float = 0, number: int = 7) -> list[str]:
    """The lines of lib/timeval.c:log_poll_interval() for that usage, and one that follows."""
    module = f"timeval({thread})" if thread else "timeval"
    texts = [
        f"Unreasonably long {usage.length_ms}ms poll interval"
        f" ({usage.user_ms}ms user, {usage.system_ms}ms system)"
    ]
    if usage.minor_faults or usage.major_faults:
        texts.append(f"faults: {usage.minor_faults} minor, {usage.major_faults} major")
    if usage.blocks_read or usage.blocks_written:
        texts.append(f"disk: {usage.blocks_read} reads, {usage.blocks_written} writes")
    if usage.voluntary or usage.involuntary:
        switches = f"{usage.voluntary} voluntary, {usage.involuntary} involuntary"
        texts.append(f"context switches: {switches}")
    return [vlog(second, number + place, module, text) for place, text in enumerate(texts)]


def write(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read(*paths: Path, zone: datetime.tzinfo = UTC) -> LogSurvey:
    found = find([str(path) for path in paths])
    return survey.survey(found.logs, found.left_out, zone)


def rounds_of(lines: Iterable[str]) -> list[LongRound]:
    taken = Rounds("a.log", "ovs-vswitchd")
    parsed = [line for text in lines if (line := parse(text.encode(), ZONE))]
    return [round_ for line in parsed for round_ in taken.take(line)] + list(taken.rest())


def line_of(text: str, zone: Zone = ZONE) -> Line:
    line = parse(text.encode(), zone)
    assert line is not None
    return line


@pytest.mark.parametrize("quoted", QUOTED, ids=lambda each: f"{each.url}-{each.usage.length_ms}")
def test_quoted_rounds_have_their_cause(quoted: Quoted, tmp_path: Path) -> None:
    log = write(tmp_path / f"{quoted.program}.log", of_usage(quoted.usage, quoted.thread))
    (round_,) = read(log).rounds
    assert (round_.cause, round_.usage, round_.thread) == (
        quoted.cause,
        quoted.usage,
        quoted.thread,
    )


@pytest.mark.parametrize(
    ("usage", "cause"),
    [
        (Usage(1000), "unknown"),
        (Usage(1000, -5, 20), "unknown"),
        # Before 2.4 the whole process's time was held against a thread's.
        (Usage(1000, 4000, 100), "unknown"),
        (Usage(1000, 1015, 0, voluntary=0, involuntary=3), "computing"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 0, 0), "not_switched"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 0, 1), "waiting"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 1, 0), "blocked"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 1, 1), "blocked"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 1, 7), "off_cpu"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 40, 15), "off_cpu"),
        (Usage(1000, 10, 0, 0, 0, 0, 0, 9, 200), "waiting"),
        # Of the record: blocked for 1,048 of 1,282 ms, and preempted 28 times meanwhile.
        (Usage(1282, 16, 16, 0, 0, 0, 0, 3, 28), "off_cpu"),
    ],
)
def test_cause_is_what_took_most(usage: Usage, cause: str) -> None:
    assert cause_of(usage) == cause


FORMS = [
    (f"2026-02-03T04:05:06.789Z|00007|timeval(handler1)|WARN|{LONG}", 789, "", ""),
    (f"2026-02-03T04:05:06Z|00007|timeval(handler1)|WARN|{LONG}", 0, "", ""),
    (
        f"Feb  3 04:05:06 node1 ovs-vswitchd[12]: ovs|00007|timeval(handler1)|WARN|{LONG}",
        0,
        "node1",
        "ovs-vswitchd",
    ),
    (
        "2026-02-03T05:05:06.789012+01:00 node1 ovs-vswitchd: "
        f"ovs|00007|timeval(handler1)|WARN|{LONG}",
        789,
        "node1",
        "ovs-vswitchd",
    ),
    (
        "2026-02-03T05:05:06+0100 node1 ovn-controller[3]: "
        f"ovs|00007|timeval(handler1)|WARN|{LONG}",
        0,
        "node1",
        "ovn-controller",
    ),
    (
        "2026-02-03T04:05:07.123456789+00:00 stderr F "
        f"2026-02-03T04:05:06.789Z|00007|timeval(handler1)|WARN|{LONG}",
        789,
        "",
        "",
    ),
    (
        f"[pod/x/y] 2026-02-03T04:05:06.789Z|00007|timeval(handler1)|WARN|{LONG}",
        789,
        "",
        "",
    ),
    (
        '{"log":"2026-02-03T04:05:06.789Z|00007|timeval(handler1)|WARN|' + LONG + '\\n",'
        '"stream":"stderr","time":"2026-02-03T04:05:07Z"}',
        789,
        "",
        "",
    ),
    (
        '{"__REALTIME_TIMESTAMP":"1770091506789000","_HOSTNAME":"node1","SYSLOG_IDENTIFIER":'
        '"ovs-vswitchd","MESSAGE":"ovs|00007|timeval(handler1)|WARN|' + LONG + '"}',
        789,
        "node1",
        "ovs-vswitchd",
    ),
]


@pytest.mark.parametrize(("text", "ms", "host", "program"), FORMS)
def test_line_is_read_in_each_form(text: str, ms: int, host: str, program: str) -> None:
    line = line_of(text)
    time = datetime.datetime(2026, 2, 3, 4, 5, 6, ms * 1000, tzinfo=UTC)
    assert line.time is not None
    assert line.time.replace(microsecond=line.time.microsecond // 1000 * 1000) == time
    assert (line.number, line.module, line.thread) == (7, "timeval", "handler1")
    assert (line.host, line.program, line.message) == (host, program, LONG)


def test_rfc_5424_has_no_thread_and_no_number() -> None:
    text = f"<132>1 2026-02-03T04:05:06.789Z node1 ovs-vswitchd 12 timeval - \ufeff{LONG}"
    line = line_of(text)
    assert (line.number, line.thread, line.program, line.message) == (
        None,
        None,
        "ovs-vswitchd",
        LONG,
    )


def test_cut_line_has_no_time() -> None:
    assert line_of(f"|timeval|WARN|{LONG}").time is None


def test_syslog_time_is_of_the_zone_given() -> None:
    text = f"Feb  3 04:05:06 node1 ovs-vswitchd: ovs|00007|timeval|WARN|{LONG}"
    assert line_of(text, CET).time == datetime.datetime(2026, 2, 3, 3, 5, 6, tzinfo=UTC)


def test_syslog_year_is_the_last_one_possible() -> None:
    text = f"Dec 31 23:59:59 node1 ovs-vswitchd: ovs|00007|timeval|WARN|{LONG}"
    assert line_of(text).time == datetime.datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_rsyslog_repetition_counts() -> None:
    prefix = "Feb  3 04:05:06 node1 ovs-vswitchd: message repeated 3 times: [ "
    line = line_of(f"{prefix}ovs|00007|timeval|WARN|{LONG}]")
    assert (line.repeated, line.message) == (3, LONG)


def test_other_threads_lines_come_between() -> None:
    usage = Usage(2000, 100, 50, 3, 0, 0, 0, 5, 1)
    mine, others = of_usage(usage), of_usage(usage, "handler4")
    mixed = [line for pair in zip(mine, others, strict=True) for line in pair]
    assert [round_.usage for round_ in rounds_of(mixed)] == [usage, usage]


def test_missing_switch_line_means_zero_if_another_line_follows() -> None:
    lines = of_usage(Usage(2000, 100, 50))
    following = vlog(0, 8, "coverage", "Skipping details", "INFO")
    (round_,) = rounds_of([*lines, following])
    assert (round_.usage.voluntary, round_.cause) == (0, "not_switched")


def test_missing_switches_are_unknown_if_a_line_is_lost() -> None:
    lines = of_usage(Usage(2000, 100, 50))
    (round_,) = rounds_of([*lines, vlog(0, 9, "coverage", "Skipping details", "INFO")])
    assert (round_.usage.voluntary, round_.cause) == (None, "off_cpu")


def test_round_has_what_was_logged_meanwhile() -> None:
    lines = [
        vlog(-9, 1, "bridge", "before it"),
        vlog(-1, 40, "ovs_rcu(urcu2)", "blocked 1000 ms waiting for main to quiesce"),
        vlog(-0.5, 41, "ovs_rcu(urcu2)", "blocked 2000 ms waiting for main to quiesce"),
        vlog(-0.2, 2, "inc_proc_eng", "node: x, recompute took 900ms", "INFO"),
        *of_usage(Usage(2500, 100, 50), number=3),
    ]
    (round_,) = rounds_of(lines)
    assert [each.kind for each in round_.logged] == ["quiesce", "took"]
    assert "2000 ms" in round_.logged[0].message
    assert round_.logged_lines == 3


def test_form_before_1_9_is_read() -> None:
    text = "1500 ms poll interval (20 ms user, 1400 ms system) is over 50 times the weighted mean"
    (round_,) = rounds_of([vlog(0, 1, "timeval", text)])
    assert (round_.usage.length_ms, round_.cause) == (1500, "kernel")


def test_dropped_and_missing_lines_are_counted(tmp_path: Path) -> None:
    dropped = "Dropped 12 log messages in last 4 seconds (most recently, 1 seconds ago) due to"
    lines = [vlog(0, 5, "poll_loop", dropped), vlog(1, 9, "bridge", "x")]
    (log,) = read(write(tmp_path / "ovs-vswitchd.log", lines)).logs
    assert (log.losses.dropped, log.missing) == ({"poll_loop": 12}, 3)


def test_numbers_of_two_processes_prove_no_loss(tmp_path: Path) -> None:
    numbers = (50_000, 200, 50_001, 201, 50_002)
    lines = [vlog(second, number, "bridge", "x") for second, number in enumerate(numbers)]
    (log,) = read(write(tmp_path / "pod.log", lines)).logs
    assert log.missing == 0


def test_unread_forms_are_counted(tmp_path: Path) -> None:
    lines = ["04:05 vswitchd Unreasonably long 2000ms poll interval", vlog(0, 1, "bridge", "x")]
    (log,) = read(write(tmp_path / "a.log", lines)).logs
    assert log.losses.unread == 1


def test_rotated_files_are_read_from_the_oldest(tmp_path: Path) -> None:
    names = ["a.log", "a.log.1", "a.log.10.gz", "a.log.2.gz", "b.log-20260201", "b.log"]
    names += ["current.log", "previous.log", "0.log.20260203-040506.gz", "0.log"]
    logs = in_order([tmp_path / name for name in names])
    assert [[path.name for path in log.paths] for log in logs] == [
        ["a.log.10.gz", "a.log.2.gz", "a.log.1", "a.log"],
        ["b.log-20260201", "b.log"],
        ["previous.log", "current.log"],
        ["0.log.20260203-040506.gz", "0.log"],
    ]


def test_round_goes_on_in_the_next_file(tmp_path: Path) -> None:
    usage = Usage(2000, 100, 50, 3, 0, 0, 0, 5, 1)
    first, *others = of_usage(usage)
    write(tmp_path / "ovs-vswitchd.log.1", [first])
    write(tmp_path / "ovs-vswitchd.log", others)
    assert [round_.usage for round_ in read(tmp_path).rounds] == [usage]


def test_line_in_a_journal_too_counts_once(tmp_path: Path) -> None:
    lines = of_usage(Usage(2000, 100, 50))
    write(tmp_path / "ovs-vswitchd.log", lines)
    journal = [f"Feb  3 09:35:00 node1 ovs-vswitchd[1]: ovs{line[24:]}" for line in lines]
    write(tmp_path / "messages", journal)
    result = read(tmp_path)
    assert (result.all_rounds, result.duplicates) == (1, 1)


def test_folder_is_read_without_its_links(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.log", of_usage(Usage(2000, 100, 50)))
    folder = tmp_path / "sos"
    write(folder / "var" / "log" / "openvswitch" / "ovs-vswitchd.log", of_usage(Usage(3000, 1, 1)))
    write(folder / "etc" / "passwd", ["no log"])
    (folder / "linked.log").symlink_to(outside)
    (folder / "round").symlink_to(folder)
    result = read(folder)
    assert [round_.usage.length_ms for round_ in result.rounds] == [3000]


@pytest.mark.parametrize(
    ("path", "program"),
    [
        ("/var/log/openvswitch/ovs-vswitchd.log", "ovs-vswitchd"),
        ("/var/log/ovn/ovsdb-server-sb.log", "ovsdb-server-sb"),
        ("/var/log/kolla/openvswitch/ovn-northd.log", "ovn-northd"),
        ("pods/ovnkube-node-x/ovn-controller/ovn-controller/logs/current.log", "ovn-controller"),
        ("pods/ovnkube-node-x/nbdb/nbdb/logs/current.log", "ovsdb-server-nb"),
        ("pods/ovnkube-node-x/northd/northd/logs/current.log", "ovn-northd"),
        ("/var/log/messages", ""),
    ],
)
def test_program_is_known_by_the_path(path: str, program: str) -> None:
    assert program_of(path) == program


def test_threads_of_a_class_differ_in_numbers() -> None:
    names = ("", None, "handler91", "revalidator15", "urcu8", "pmd-c03/id:8")
    assert [class_of(name) for name in names] == ["", "?", "handler", "revalidator", "urcu", "pmd"]


def test_rounds_at_the_same_time_know_of_each_other(tmp_path: Path) -> None:
    lines = [
        *of_usage(Usage(2000, 1, 1), "handler1", 0),
        *of_usage(Usage(1900, 1, 1), "handler2", 0.1),
        *of_usage(Usage(2000, 1, 1), "handler1", 60, 8),
    ]
    result = read(write(tmp_path / "a.log", lines))
    assert [each.together for each in result.rounds] == [1, 1, 0]


def test_thread_that_never_quiesces_is_found(tmp_path: Path) -> None:
    waits = [
        vlog(
            2**power,
            power,
            "ovs_rcu(urcu4)",
            f"blocked {2**power}000 ms waiting for revalidator95 to quiesce",
        )
        for power in range(5)
    ]
    (finding,) = findings(read(write(tmp_path / "ovs-vswitchd.log", waits)))
    assert "Others waited 16.0 s for ovs-vswitchd revalidator95 to quiesce" in finding.text


def test_sums_are_of_the_rounds_of_that_cause(tmp_path: Path) -> None:
    blocked = Usage(2450, 60, 4, 0, 0, 0, 0, 1, 0)
    waiting = Usage(2137, 180, 10, 0, 0, 0, 0, 0, 900)
    log = write(tmp_path / "ovs-vswitchd.log", [*of_usage(waiting), *of_usage(blocked, "", 9, 20)])
    survey_ = read(log)
    (finding,) = findings(survey_)
    assert finding.cause == "blocked"
    assert finding.text == (
        "The main thread of ovs-vswitchd was blocked in 1 of 2 long rounds: off the CPU for"
        " 2,386 ms of 2,450 ms in that one, 1 voluntary context switch."
    )
    (group,) = survey_.groups
    assert (group.length_ms, group.off_ms) == (4587, 4333)
    assert (group.by_cause["waiting"].off_ms, group.causes["waiting"]) == (1947, 1)


def test_commands_run_with_several_processes(tmp_path: Path) -> None:
    program = tmp_path / "ovs-vswitchd"
    shutil.copy("/bin/sleep", program)
    waiting = Usage(2137, 180, 10, 0, 0, 0, 0, 0, 900)
    (finding,) = findings(read(write(tmp_path / "ovs-vswitchd.log", of_usage(waiting))))
    _, quota = finding.next
    with ExitStack() as stack:
        for _ in range(2):
            process = stack.enter_context(subprocess.Popen([program, "60"]))
            stack.callback(process.kill)
        done = subprocess.run(["bash", "-c", quota], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    # The root of cgroup v2 has no quota, and its file no such line.
    is_root = all(line.endswith(":/") for line in Path("/proc/self/cgroup").read_text().split())
    assert "nr_throttled" in done.stdout or is_root


@pytest.mark.parametrize("quoted", QUOTED, ids=lambda each: f"{each.url}-{each.usage.length_ms}")
def test_verdict_has_thirty_words_at_most(quoted: Quoted, tmp_path: Path) -> None:
    lines = [
        line
        for number in range(1000, 9000, 8)
        for line in of_usage(quoted.usage, quoted.thread, number, number)
    ]
    log = write(tmp_path / f"{quoted.program}.log", lines)
    for finding in findings(read(log)):
        assert len(finding.text.split()) <= WORDS
        assert finding.next


def test_sums_are_exact_though_few_rounds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "MOST_ROUNDS", 3)
    lengths = list(range(1000, 1010))
    lines = [
        line
        for place, length in enumerate(lengths)
        for line in of_usage(Usage(length, 900, 0), second=10 * place, number=10 + place)
    ]
    result = read(write(tmp_path / "a.log", lines))
    assert [each.usage.length_ms for each in result.rounds] == [1007, 1008, 1009]
    (group,) = result.groups
    assert (result.all_rounds, group.rounds, group.length_ms) == (10, 10, sum(lengths))


def test_long_line_is_cut_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 5_000_000 + b"\n" + of_usage(Usage(2000, 1, 1))[0].encode() + b"\n")
    result = read(path)
    assert (result.cut_lines, result.all_rounds) == (1, 1)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_file_that_expands_too_much_is_left(
    end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EXPANSION_ALLOWED", 1 << 20)
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress((b"\0" * 1000 + end) * 50_000))
    reader = Reader()
    most = 300 * path.stat().st_size + (1 << 20)
    assert sum(map(len, reader.lines(path))) < most
    assert reader.read_bytes < most
    assert reader.left_out == [f"{path} expands 300-fold, which no log does"]


def test_sparse_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "EXPANSION_ALLOWED", 1 << 20)
    path = write(tmp_path / "a.log", of_usage(Usage(2000, 1, 1)))
    try:
        os.truncate(path, 1 << 42)
    except OSError:
        os.truncate(path, 1 << 33)
    result = read(path)
    assert result.all_rounds == 1
    assert result.left_out == [f"{path} is sparse: it expands 300-fold, which no log does"]


def test_small_sparse_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"\n" + of_usage(Usage(2000, 1, 1))[0].encode() + b"\n")
    result = read(path)
    assert (result.all_rounds, result.left_out) == (1, [])


def test_xz_that_takes_much_memory_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.log.xz"
    small = lzma.compress(of_usage(Usage(2000, 1, 1))[0].encode() + b"\n")
    path.write_bytes(small)
    assert read(path).all_rounds == 1
    path.write_bytes(with_dictionary(small, 1 << 30))
    result = read(path)
    assert result.all_rounds == 0
    assert result.left_out == [f"can't read {path}: Memory usage limit exceeded"]


def with_dictionary(xz: bytes, size: int) -> bytes:
    """The same file of one block, whose head says that its dictionary has a size, a power of 2."""
    head = bytearray(xz[12 : 12 + (xz[12] + 1) * 4])
    place = head.index(b"\x21\x01") + 2
    # https://tukaani.org/xz/xz-file-format.txt, 5.3.1: 40 is 4 GiB - 1, two steps are a power.
    head[place] = (size.bit_length() - 13) * 2
    head[-4:] = zlib.crc32(head[:-4]).to_bytes(4, "little")
    return xz[:12] + bytes(head) + xz[12 + len(head) :]


def test_xz_of_several_streams_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.log.xz"
    streams = [
        lzma.compress("".join(f"{line}\n" for line in of_usage(usage, number=number)).encode())
        for number, usage in ((3, Usage(2000, 1, 1)), (9, Usage(3000, 1, 1)))
    ]
    path.write_bytes(streams[0] + bytes(8) + streams[1] + bytes(4))
    result = read(path)
    assert (result.all_rounds, result.left_out) == (2, [])


@pytest.mark.parametrize("kind", ["FIFO", "link"])
def test_file_exchanged_after_the_listing_is_left(kind: str, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside.log", of_usage(Usage(2000, 1, 1)))
    path = write(tmp_path / "folder" / "a.log", of_usage(Usage(3000, 1, 1)))
    found = find([str(path.parent)])
    path.unlink()
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(outside)
    done = threading.Event()
    surveys: list[LogSurvey] = []

    def run() -> None:
        surveys.append(survey.survey(found.logs, found.left_out, UTC))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    assert done.wait(HANGS_S), "it hangs"
    assert surveys[0].all_rounds == 0
    assert len(surveys[0].left_out) == 1


def test_device_is_no_log(tmp_path: Path) -> None:
    """The one line of /dev/zero never ends."""
    link = tmp_path / "zero.log"
    link.symlink_to("/dev/zero")
    reader = Reader()
    assert list(reader.lines(link)) == []
    assert reader.left_out == [f"can't read {link}: it is a device, and no log"]


def test_named_fifo_and_link_are_read(tmp_path: Path) -> None:
    log = write(tmp_path / "a.log", of_usage(Usage(2000, 1, 1)))
    link, fifo = tmp_path / "link.log", tmp_path / "fifo"
    link.symlink_to(log)
    os.mkfifo(fifo)
    assert read(link).all_rounds == 1
    threading.Thread(target=lambda: fifo.write_bytes(log.read_bytes()), daemon=True).start()
    assert read(fifo).all_rounds == 1


@pytest.mark.parametrize("name", ["a.log.gz", "a.log.xz", "a.log.bz2"])
def test_damaged_file_is_read_as_far_as_it_goes(name: str, tmp_path: Path) -> None:
    text = "\n".join(of_usage(Usage(2000, 1, 1)) * 3) + "\n"
    whole = COMPRESS[name.rpartition(".")[2]](text.encode())
    (tmp_path / name).write_bytes(whole)
    assert read(tmp_path / name).left_out == []
    (tmp_path / name).write_bytes(whole[:-12])
    assert len(read(tmp_path / name).left_out) == 1


def test_random_bytes_are_no_log(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    pieces = [b"timeval|WARN|", LONG.encode(), b"|", b"2026-02-03T04:05:06Z|1|", b"ovs|9", b"\n"]
    pieces += [b"\x1b[2J", b"\xff\xfe", b'{"log":"', b'"}', b"message repeated 9 times: ["]
    pieces += [b"9999-12-31T23:59:59+23:59 ", b"0001-01-01T00:00:00-23:59 ", b"Feb 30 01:01:01 "]
    chance = random.Random(1)
    path.write_bytes(b"".join(chance.choice(pieces) for _ in range(50_000)))
    result = read(path)
    assert result.left_out == []
