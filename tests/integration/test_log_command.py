"""`kernel-delay log` on the log of a real ovs-vswitchd that was given long rounds."""

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copy2

import pytest

from kernel_delay.cli import main
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.survey import LogSurvey, survey
from lab.binaries import Binaries
from tests.integration.long_rounds import MAIN, LongRounds, ovs_with_long_rounds

LONG_MS = 1050

# What a thread that slept for LONG_MS can be said to have been: on a machine that is busy, what it
# did beside that may leave open which of the two it was.
OFF_CPU = {"blocked", "off_cpu", "waiting"}


@pytest.fixture(scope="module")
def rounds(
    ovs_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LongRounds]:
    with ovs_with_long_rounds(ovs_binaries, tmp_path_factory.mktemp("log")) as made:
        made.make(MAIN, "lock", LONG_MS)
        made.make(MAIN, "write", LONG_MS)
        made.make(MAIN, "compute", LONG_MS)
        made.make(MAIN, "kernel", LONG_MS)
        made.settle()
        yield made


def log_of(rounds: LongRounds) -> Path:
    return rounds.ovs.folder / "ovs-vswitchd.log"


@pytest.fixture(scope="module")
def log(rounds: LongRounds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What it has by now: more may come."""
    return Path(copy2(log_of(rounds), tmp_path_factory.mktemp("log")))


@pytest.fixture(scope="module")
def found(log: Path) -> LogSurvey:
    return survey(find([str(log)]).logs, (), datetime.UTC)


def test_each_line_is_a_round(log: Path, found: LogSurvey) -> None:
    lines = log.read_text().splitlines()
    assert found.all_rounds == sum("Unreasonably long" in line for line in lines)
    assert found.all_rounds >= 4
    (read,) = found.logs
    assert (read.lines, read.losses.unread) == (len(lines), 0)


def test_sleeps_are_off_the_cpu(found: LogSurvey) -> None:
    slept = [each for each in found.rounds if (each.usage.off_ms or 0) > LONG_MS - 50]
    assert len(slept) >= 2
    mostly = [each for each in slept if (each.usage.off_ms or 0) > each.usage.length_ms / 2]
    assert {each.cause for each in mostly} <= OFF_CPU


def test_work_is_counted_as_work(found: LogSurvey) -> None:
    """On a busy machine the rounds are longer, and the work in them is as long."""
    ran = [(each.usage.user_ms or 0) + (each.usage.system_ms or 0) for each in found.rounds]
    assert sum(ms >= LONG_MS - 50 for ms in ran) >= 2


def test_command_says_the_same(
    log: Path, found: LogSurvey, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "--json", str(log)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["cause"] for each in document["survey"]["rounds"]] == [
        each.cause for each in found.rounds
    ]
