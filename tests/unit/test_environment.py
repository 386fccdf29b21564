"""Options of a service from the environment."""

import os
from collections.abc import Mapping

import pytest

from kernel_delay import cli, commands
from kernel_delay.cli import main, parser_of
from kernel_delay.errors import UsageError
from kernel_delay.register import COMMANDS

WATCH = parser_of("watch", commands.load("watch"))


def options(variables: Mapping[str, str], *given: str) -> list[str]:
    return list(cli.environment_options(WATCH, given, variables))


@pytest.mark.parametrize(
    ("variables", "given", "found"),
    [
        ({"KERNEL_DELAY_THRESHOLD": "0.1"}, [], ["--threshold=0.1"]),
        ({"KERNEL_DELAY_MAX_SIZE": "5"}, [], ["--max-size=5"]),
        ({"KERNEL_DELAY_MAX_SIZE": ""}, [], []),
        ({"KERNEL_DELAY_THRESHOLD": "0.1"}, ["--threshold", "2"], []),
        ({"KERNEL_DELAY_THRESHOLD": "0.1"}, ["--threshold=2"], []),
        ({"KERNEL_DELAY_PID": "5"}, ["-p7"], []),
        ({"KERNEL_DELAY_PID": "5"}, [], ["--pid=5"]),
        ({"KERNEL_DELAY_PID": "5"}, ["--pid-file", "x"], ["--pid=5"]),
        ({"KERNEL_DELAY_FOLLOW": "1"}, [], ["--follow"]),
        ({"KERNEL_DELAY_FOLLOW": "Yes"}, [], ["--follow"]),
        ({"KERNEL_DELAY_FOLLOW": "0"}, [], []),
        ({"KERNEL_DELAY_NO_STACKS": "true"}, [], ["--no-stacks"]),
        ({"KERNEL_DELAY_VERSION": "1", "KERNEL_DELAY_HELP": "1"}, [], []),
        ({"KERNEL_DELAY_IMAGE": "of another tool", "THRESHOLD": "1"}, [], []),
    ],
)
def test_option_is_taken_unless_it_is_given(
    variables: dict[str, str], given: list[str], found: list[str]
) -> None:
    assert options(variables, *given) == found


def test_flag_with_another_value_names_its_variable() -> None:
    with pytest.raises(UsageError, match="KERNEL_DELAY_FOLLOW must be 1 or 0, not 'maybe'"):
        options({"KERNEL_DELAY_FOLLOW": "maybe"})


def test_wrong_value_of_a_variable_names_its_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNEL_DELAY_THRESHOLD", "soon")
    assert main(["watch"]) == os.EX_USAGE
    assert "--threshold" in capsys.readouterr().err


def test_watch_alone_reads_the_environment() -> None:
    reading = [each for each in COMMANDS if hasattr(commands.load(each), "READS_ENVIRONMENT")]
    assert reading == ["watch"]
