"""Open vSwitch's log: which lines are of long rounds, and which round a line is of."""

import datetime
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.model import LogLine, RelatedLine, Round, Sample
from kernel_delay.openvswitch import log
from kernel_delay.openvswitch.log import IterationsLeft, OvsLog, log_file_of
from kernel_delay.openvswitch.log_lines import parse_line, parse_related
from kernel_delay.reporters.rounds import left_iteration_lines, left_lines, round_lines
from tests.unit.samples import START_TIME, bare_sample, bare_thread, timed_thread, window
from tests.workload import HANGS_S, sleeping

MAIN = "2026-11-21T21:12:20.312Z|00021|timeval|WARN|Unreasonably long 4112ms poll interval"
HANDLER = (
    "2026-11-21T21:12:20.312Z|00021|timeval(handler4)|WARN|Unreasonably long 1234ms poll interval"
    " (800ms user, 3ms system)"
)
TIME = datetime.datetime(2026, 11, 21, 21, 12, 20, 312000, tzinfo=datetime.UTC)


def test_a_line_has_the_thread_and_what_ovs_measured() -> None:
    assert parse_line(HANDLER) == LogLine(TIME, "handler4", 1234, 800, 3)
    assert parse_line(MAIN) == LogLine(TIME, "", 4112)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "2026-11-21T21:12:20.312Z|00022|timeval|WARN|faults: 12 minor, 0 major",
        "2026-11-21T21:12:20.312Z|00023|timeval|WARN|context switches: 1 voluntary, 7 involuntary",
        HANDLER.replace("WARN", "INFO"),
        HANDLER.replace("1234", "1" * 30),
        "x" + HANDLER,
    ],
)
def test_other_lines_are_none(line: str) -> None:
    assert parse_line(line) is None


@given(st.text())
def test_any_text_is_a_line_or_none(text: str) -> None:
    parse_line(text)
    parse_line(
        f"2026-11-21T21:12:20.312Z|1|timeval({text})|WARN|Unreasonably long 1ms poll interval"
    )


def round_sample(name: str, tid: int, length_ms: float) -> Sample:
    sample = bare_sample(bare_thread(tid, name), window=window("poll", int(length_ms * 1e6)))
    return replace(sample, round=Round(tid, name, number=7))


def line_at(length_ms: int, thread: str = "handler4", after_ms: float = 0) -> str:
    time = START_TIME + datetime.timedelta(milliseconds=length_ms + after_ms)
    return (
        f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z|00021|timeval({thread})|WARN|"
        f"Unreasonably long {length_ms}ms poll interval (1ms user, 0ms system)\n"
    ).replace("timeval()", "timeval")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log, "LINE_DELAY_S", 0.0)
    path = tmp_path / "ovs-vswitchd.log"
    path.write_text(line_at(1100) + "of before\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_round_has_the_line_of_its_thread_and_length(path: Path) -> None:
    follower = OvsLog(path)
    append(path, line_at(1100, "handler5") + line_at(1300) + line_at(1101) + "anything\n")

    paired = follower.with_line(round_sample("handler4", 31, 1101.4))

    assert paired.round is not None
    assert paired.round.log is not None
    assert (paired.round.log.thread, paired.round.log.length_ms) == ("handler4", 1101)
    assert [(line.thread, line.length_ms) for line in follower.left()] == [
        ("handler5", 1100),
        ("handler4", 1300),
    ]
    follower.close()


def kept_sample(length_ms: float, ready_ms: int) -> Sample:
    """A round whose thread waited so long for a CPU."""
    sample = round_sample("handler4", 31, length_ms)
    return replace(sample, threads=(timed_thread(31, "handler4", ready=ready_ms),))


def stopped_sample(length_ms: float, stopped_ms: int) -> Sample:
    """A round whose thread was stopped for so long."""
    sample = round_sample("handler4", 31, length_ms)
    return replace(sample, threads=(timed_thread(31, "handler4", stopped=stopped_ms),))


def test_line_next_to_a_stop_is_of_the_round(path: Path) -> None:
    """The thread is stopped as its poll returns, and Open vSwitch measures from after that."""
    follower = OvsLog(path)
    append(path, line_at(1100, after_ms=1300))
    paired = follower.with_line(stopped_sample(2400, 1300))
    assert paired.round is not None
    assert paired.round.log is not None
    follower.close()


def test_threads_are_read_while_a_line_is_awaited(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LINE_DELAY_S", HANGS_S)
    calls: list[int] = []
    follower = OvsLog(path)

    def read_threads() -> None:
        calls.append(1)
        if len(calls) == 2:
            append(path, line_at(1100))

    paired = follower.with_line(round_sample("handler4", 31, 1100), read_threads)
    assert paired.round is not None
    assert paired.round.log is not None
    assert len(calls) == 2
    follower.close()


def test_of_rounds_in_a_row_each_has_its_line(path: Path) -> None:
    """Where lines are read late, that of the next round can be nearer in length."""
    found = OvsLog(path)
    append(path, line_at(1_088) + line_at(1_093, after_ms=1_500))
    first = found.with_line(round_sample("handler4", 12, 1_112))
    assert first.round is not None
    assert first.round.log is not None
    assert first.round.log.length_ms == 1_088
    assert [line.length_ms for line in found.left()] == [1_093]
    found.close()


def test_round_may_exceed_its_line_by_waits_for_cpu(path: Path) -> None:
    follower = OvsLog(path)
    append(path, line_at(1100))
    paired = follower.with_line(kept_sample(1290, 150))
    assert paired.round is not None
    assert paired.round.log is not None
    follower.close()


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (line_at(1100), kept_sample(1290, 100)),
        (line_at(1290, after_ms=700), kept_sample(1100, 150)),
        (line_at(1303, after_ms=1996), stopped_sample(1305, 1301)),
        (line_at(2400), round_sample("handler4", 31, 1100)),
        (line_at(1100), round_sample("handler5", 31, 1100)),
        (line_at(1100), round_sample("handler4", 31, 1200)),
        (line_at(1100, after_ms=3000), round_sample("handler4", 31, 1100)),
        (line_at(1100), round_sample("handler4", 31, 900)),
        (line_at(1100), round_sample("ovs-vswitchd", 27090, 1100)),
    ],
)
def test_a_line_of_another_round_is_not_taken(path: Path, line: str, sample: Sample) -> None:
    follower = OvsLog(path)
    append(path, line)
    paired = follower.with_line(sample)
    assert paired.round is not None
    assert paired.round.log is None
    follower.close()


def test_line_of_several_rounds_is_of_the_longest(path: Path) -> None:
    """The RCU thread tests a latch by poll(2): a round ends there, and Open vSwitch's does not."""
    follower = OvsLog(path)
    append(path, line_at(1326, "urcu2"))
    paired = follower.with_line(round_sample("urcu2", 31, 1204.2))
    assert paired.round is not None
    assert paired.round.log is not None
    assert paired.round.log.length_ms == 1326
    assert paired.round.log_missing is None
    assert not follower.left()
    follower.close()


def test_why_a_round_has_no_line_is_known(path: Path) -> None:
    follower = OvsLog(path)
    stopped = round_sample("handler4", 31, 1500)
    threads = (timed_thread(31, "handler4", user=2, stopped=1400),)
    for sample, missing in (
        (replace(stopped, threads=threads), "stopped"),
        (kept_sample(1500, 900), "ready"),
        (kept_sample(2500, 900), "not_found"),
        (round_sample("handler4", 31, 900), None),
        (replace(stopped, window=replace(stopped.window, ended_by="switch")), None),
    ):
        paired = follower.with_line(sample)
        assert paired.round is not None
        assert paired.round.log_missing == missing
    follower.close()


def test_the_main_thread_has_no_name_in_the_log(path: Path) -> None:
    follower = OvsLog(path)
    append(path, line_at(1100, thread=""))
    paired = follower.with_line(round_sample("ovs-vswitchd", 27090, 1100))
    assert paired.round is not None
    assert paired.round.log is not None
    follower.close()


def test_a_log_that_is_rotated_goes_on(path: Path) -> None:
    follower = OvsLog(path)
    append(path, line_at(1100)[:30])
    assert not follower.left()
    append(path, line_at(1100)[30:])
    path.rename(path.with_suffix(".1"))
    path.write_text(line_at(1200))
    assert [line.length_ms for line in follower.left()] == [1100, 1200]
    path.write_text(line_at(1300)[:-1])  # cut short, as copytruncate does
    assert len(follower.left()) == 2
    append(path, "\n")
    assert [line.length_ms for line in follower.left()] == [1100, 1200, 1300]
    follower.close()


def test_log_longer_than_one_read_is_read_completely(path: Path) -> None:
    follower = OvsLog(path)
    other = "2026-11-21T21:12:20.312Z|00001|bridge|INFO|something else, of which there is much\n"
    append(path, other * (2 * log.MOST_READ_BYTES // len(other)) + line_at(1100))
    path.rename(path.with_suffix(".1"))
    path.write_text(line_at(1200))
    assert [line.length_ms for line in follower.left()] == [1100, 1200]
    follower.close()


def test_log_rotated_twice_is_read_if_it_is_followed(path: Path) -> None:
    follower = OvsLog(path)
    for name, length_ms in ((".1", 1100), (".2", 1200)):
        append(path, line_at(length_ms))
        path.rename(path.with_suffix(name))
        path.write_text("")
        follower.follow()
    assert [line.length_ms for line in follower.left()] == [1100, 1200]
    follower.close()


def test_a_log_may_be_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.log"
    os.mkfifo(fifo)
    follower = OvsLog(fifo)
    with fifo.open("w") as writer:
        writer.write(line_at(1100))
        writer.flush()
        assert [line.length_ms for line in follower.left()] == [1100]
    follower.close()


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="can't read"):
        OvsLog(tmp_path / "none.log")


QUIESCE = (
    "2026-11-21T21:12:20.312Z|00007|ovs_rcu(urcu3)|WARN|blocked 1000 ms waiting for {} to quiesce"
)
DUMP = (
    "2026-11-21T21:12:20.312Z|00003|ofproto_dpif_upcall(revalidator7)|{}|Spent an unreasonably long"
    " 2345ms dumping flows"
)


def test_quiesce_and_dump_lines_name_their_thread() -> None:
    assert parse_related(QUIESCE.format("handler4")) == RelatedLine(
        TIME, "urcu3", "quiesce", 1000, "handler4"
    )
    assert parse_related(QUIESCE.format("main")) == RelatedLine(TIME, "urcu3", "quiesce", 1000, "")
    # 3.1 has it as INFO, 3.7 as WARN.
    for level in ("INFO", "WARN"):
        assert parse_related(DUMP.format(level)) == RelatedLine(
            TIME, "revalidator7", "dump", 2345, "revalidator7"
        )
    assert parse_related(HANDLER) is None
    assert parse_line(QUIESCE.format("main")) is None


def related_at(text: str, ms: int) -> str:
    time = START_TIME + datetime.timedelta(milliseconds=ms)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}{text[text.index('Z') :]}\n"


def test_a_round_explains_what_was_written_in_it(path: Path) -> None:
    follower = OvsLog(path)
    append(
        path,
        related_at(QUIESCE.format("main"), 900)  # since before the round
        + related_at(QUIESCE.format("main"), 1200)
        + related_at(QUIESCE.format("handler4"), 1200)
        + related_at(QUIESCE.replace("1000", "2000").format("main"), 2200)
        + related_at(DUMP.format("WARN"), 2500)
        + related_at(QUIESCE.format("main"), 2700),  # of the next
    )
    main = follower.with_line(round_sample("ovs-vswitchd", 27090, 2600))
    leader = follower.with_line(round_sample("revalidator7", 40, 2600))
    assert main.round is not None
    assert leader.round is not None
    assert [line.length_ms for line in main.round.related] == [1000, 2000]
    assert [line.what for line in leader.round.related] == ["dump"]
    assert [line.slow for line in follower.left_related()] == ["", "handler4", ""]
    said = "\n".join(round_lines(main))
    assert "It logged too: urcu3 was blocked for 2,000 ms, until" in said
    left = list(left_lines((), follower.left_related()))
    assert "logged that handler4 kept urcu3 for 1000 ms at" in left[1]
    follower.close()


# As Open vSwitch 4.0 wrote it, with `pmd-perf-log-set on -us 2000`.
ITERATION = (
    "2026-11-27T16:47:45.590Z|00372|pmd_perf(pmd-c00/id:5)|WARN|Suspicious iteration (Excessive"
    " total cycles): iter=1178292 duration={} us"
)
PMD = "pmd-c00/id:5"


def absence(length_ms: float, name: str = PMD) -> Sample:
    """A PMD thread was off its CPU for that long."""
    sample = bare_sample(bare_thread(12, name), window=window("switch", int(length_ms * 1e6)))
    return replace(sample, round=Round(12, name, number=7))


def iteration_of(follower: OvsLog, sample: Sample) -> RelatedLine | None:
    round_ = follower.with_line(sample).round
    assert round_ is not None
    (line,) = round_.related or (None,)
    return line


def test_iteration_lines_have_microseconds_and_a_reason() -> None:
    line = parse_related(ITERATION.format(10660))
    assert line is not None
    assert (line.thread, line.what, line.length_ms) == (PMD, "iteration", 10)
    assert (line.length_us, line.reason) == (10660, "Excessive total cycles")
    assert parse_related(ITERATION.format("1" * 20)) is None


def test_absence_of_a_pmd_thread_has_its_iteration(path: Path) -> None:
    follower = OvsLog(path)
    append(path, related_at(ITERATION.format(10660), 10) + related_at(ITERATION.format(7004), 110))
    record = follower.with_line(absence(10.1))
    assert record.round is not None
    assert [line.length_us for line in record.round.related] == [10660]
    (said,) = (line for line in round_lines(record) if "logged too" in line)
    assert f"{PMD} took 10.7 ms for an iteration, until" in said
    assert said.endswith(": Excessive total cycles.")
    follower.close()


@pytest.mark.parametrize(
    ("length_us", "at_ms", "name"),
    [
        (10100, 10, "pmd-c01/id:5"),
        # A longer iteration, of which the absence is a small part.
        (30000, 10, PMD),
        # Before the absence was over, and after all that may be left of the iteration.
        (10100, 5, PMD),
        (10100, 15, PMD),
    ],
)
def test_other_iterations_are_not_those_of_an_absence(
    path: Path, length_us: int, at_ms: int, name: str
) -> None:
    follower = OvsLog(path)
    append(path, related_at(ITERATION.format(length_us).replace(PMD, name), at_ms))
    follower.follow()
    assert iteration_of(follower, absence(10.1)) is None
    follower.close()


def test_iterations_that_no_record_explains_are_summed_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_LINES_KEPT", 3)
    follower = OvsLog(path)
    append(path, "".join(related_at(ITERATION.format(7000 - each), 500) for each in range(8)))
    append(path, related_at(QUIESCE.format("main"), 900))
    assert len(follower.left_related()) == 1
    found = follower.left_iterations()
    assert found == {PMD: IterationsLeft(8, 7000)}
    (said,) = left_iteration_lines(found)
    assert f"logged 8 suspicious iterations of {PMD}, up to 7.0 ms: no record" in said
    assert follower.left_iterations() == found
    follower.close()


def test_iteration_is_awaited_where_such_lines_come(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where none came yet, nor of an absence that is shorter than each of them."""
    monkeypatch.setattr(log, "ITERATION_DELAY_S", 3600)
    follower = OvsLog(path)
    assert iteration_of(follower, absence(10.1)) is None
    append(path, related_at(ITERATION.format(9000), 500))
    assert iteration_of(follower, absence(3)) is None

    def write() -> None:
        append(path, related_at(ITERATION.format(10400), 10))

    round_ = follower.with_line(absence(10.1), write).round
    assert round_ is not None
    assert [line.length_us for line in round_.related] == [10400]
    follower.close()


@pytest.fixture
def opened(path: Path) -> Iterator[int]:
    """A descriptor of this process of a log, as ovs-vswitchd has one."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    yield fd
    os.close(fd)


def log_of(fd: int) -> OvsLog:
    """Follow a log that this process has open: it may have others."""
    return OvsLog(Path(f"/proc/self/fd/{fd}"), os.getpid())


def test_the_log_of_a_process_is_the_file_that_it_has_open(path: Path, opened: int) -> None:
    with sleeping(stdout=opened, stderr=opened) as process:
        assert log_file_of(process.pid) == Path(f"/proc/{process.pid}/fd/1")
    assert log_file_of(process.pid) is None


def test_the_log_that_is_open_is_read_wherever_it_is(path: Path, opened: int) -> None:
    follower = log_of(opened)
    os.write(opened, line_at(1100).encode())
    path.rename(path.with_suffix(".1"))
    path.symlink_to("/etc/passwd")
    os.write(opened, line_at(1200).encode())
    assert [line.length_ms for line in follower.left()] == [1100, 1200]
    follower.close()


def test_a_log_opened_anew_is_read_by_its_new_descriptor(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `ovs-appctl vlog/reopen`."""
    fds = tmp_path / "proc" / "42" / "fd"
    fds.mkdir(parents=True)
    monkeypatch.setattr(log, "PROC", tmp_path / "proc")
    (fds / "3").symlink_to(path)
    follower = OvsLog(fds / "3", 42)
    newer = tmp_path / "newer.log"
    newer.write_text(line_at(1200))
    append(path, line_at(1100))
    (fds / "3").unlink()
    assert [line.length_ms for line in follower.left()] == [1100]
    (fds / "3").symlink_to("/etc/passwd")
    (fds / "10").symlink_to(newer)
    assert [line.length_ms for line in follower.left()] == [1100, 1200]
    follower.close()


def test_a_log_that_is_empty_has_nothing_yet(path: Path, opened: int) -> None:
    os.truncate(path, 0)
    follower = log_of(opened)
    assert follower.left() == ()
    os.write(opened, line_at(1100).encode())
    assert [line.length_ms for line in follower.left()] == [1100]
    follower.close()


def test_a_device_or_fifo_is_no_log(tmp_path: Path) -> None:
    """Opening one does something, and the process chooses what it has open by such a name."""
    fifo = tmp_path / "a.log"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDWR)
    follower = log_of(fd)
    os.write(fd, line_at(1100).encode())
    assert follower.left() == ()
    assert os.read(fd, 4096).decode() == line_at(1100)
    follower.close()
    os.close(fd)


def test_short_lines_are_not_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of empty lines alone had held the end of `watch` up for a minute."""
    follower = OvsLog(path)
    append(path, "\n" * 100_000 + line_at(1100))
    looked_at: list[str] = []

    def parse(line: str) -> LogLine | None:
        looked_at.append(line)
        return parse_line(line)

    monkeypatch.setattr(log, "parse_line", parse)
    assert [line.length_ms for line in follower.left()] == [1100]
    assert looked_at == [line_at(1100).rstrip()]
    follower.close()


@given(
    st.lists(
        st.sampled_from([b"a", b"\n", b"Unreasonably long ", b" to quiesce", b"nreasonably long"])
    )
)
def test_lines_that_are_looked_at_are_whole(parts: list[bytes]) -> None:
    text = b"".join(parts)
    looked_for = [
        line for line in text.split(b"\n") if b"nreasonably long " in line or b" to quiesce" in line
    ]
    assert list(log._likely(text)) == looked_for


def test_of_a_log_that_grows_few_lines_are_decoded(path: Path) -> None:
    """Debug messages had each been decoded, and taken a quarter of a CPU."""
    follower = OvsLog(path)
    other = "2026-11-21T21:12:20.123Z|00007|bridge|DBG|" + "x" * 60 + "\n"
    append(path, other * 10_000 + line_at(1100))
    calls = 0

    def count(frame: object, event: str, function: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        follower.follow()
    finally:
        sys.setprofile(None)
    assert [line.length_ms for line in follower.left()] == [1100]
    assert calls < 1000
    follower.close()


@pytest.mark.parametrize(
    "when",
    ["2026-99-99T00:00:00.000Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
     "2026-01-01T24:00:00Z", "9999-12-31T23:59:59Z", "٢٠٢٦-01-01T00:00:00Z"],
)  # fmt: skip
def test_what_is_no_time_is_no_line(when: str) -> None:
    long = "timeval|WARN|Unreasonably long 1000ms poll interval"
    assert parse_line(f"2026-01-01T00:00:00Z|00001|{long}") is not None
    assert parse_line(f"{when}|00001|{long}") is None
    quiesce = "ovs_rcu(urcu3)|WARN|blocked 1000 ms waiting for main to quiesce"
    assert parse_related(f"2026-01-01T00:00:00Z|00001|{quiesce}") is not None
    assert parse_related(f"{when}|00001|{quiesce}") is None


@pytest.mark.parametrize("digits", [12, 13, 18, 30])
def test_lengths_of_any_size_are_borne(path: Path, digits: int) -> None:
    follower = OvsLog(path)
    huge = "9" * digits
    append(path, related_at(QUIESCE.format("main").replace("1000", huge), 1200))
    append(path, line_at(1100).replace("1100ms", f"{huge}ms"))
    sample = round_sample("ovs-vswitchd", 27090, 1500)
    paired = follower.with_line(sample)
    assert paired.round is not None
    assert paired.round.related == ()
    assert len(follower.left()) == len(follower.left_related()) == (digits <= 12)
    follower.close()
