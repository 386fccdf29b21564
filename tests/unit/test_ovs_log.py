"""Open vSwitch's log: which lines are of long rounds, and which round a line is of."""

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.model import LogLine, Round, Sample
from kernel_delay.ovs import log
from kernel_delay.ovs.log import OvsLog, parse_line
from tests.unit.samples import START_TIME, bare_sample, bare_thread, window

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


def test_a_round_has_the_line_of_its_thread_length_and_time(path: Path) -> None:
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


@pytest.mark.parametrize(
    ("line", "sample"),
    [
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


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="can't read"):
        OvsLog(tmp_path / "none.log")
