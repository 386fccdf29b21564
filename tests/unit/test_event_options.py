"""The options of syscall events, as the plan that comes of them."""

import argparse
from argparse import ArgumentParser
from typing import Any

import pytest

from kernel_delay import cli
from kernel_delay.capture import plan
from kernel_delay.commands.options import syscall_events as event_options
from kernel_delay.errors import UsageError
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.host.syscalls import Syscall, syscall_names, syscalls
from tests.system_calls import syscall_number


def parsed(*arguments: str) -> argparse.Namespace:
    parser = ArgumentParser(exit_on_error=False)
    event_options.add_arguments(parser)
    return parser.parse_args(arguments)


def plan_of(*arguments: str) -> object:
    return event_options.event_plan(parsed(*arguments))


def calls(*names: str) -> frozenset[Syscall]:
    return frozenset(call for name in names for call in syscalls(name))


def test_no_events_unless_asked_for() -> None:
    assert plan_of() is None
    assert plan_of("--skip-syscall-poll-events", "--stack-trace-size", "7") is None


def test_defaults() -> None:
    assert plan_of("-s") == plan.EventPlan()


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (["-s", "50000"], {"shortest_ns": 50_000}),
        (["--syscall-events", "1"], {"shortest_ns": 1}),
        (["-s", "--stack-mode", "fp"], {"stack_mode": "fp"}),
        (["-s", "--stack-mode", "auto"], {"stack_mode": "auto"}),
        (["-s", "--stack-mode", "table"], {"stack_mode": "table"}),
        (["-s", "--stack-trace-size", "0"], {"stack_mode": "none", "max_stacks": 0}),
        (["-s", "--stack-trace-size", "9"], {"max_stacks": 9}),
        (["-s", "--stack-bytes", "4097"], {"stack_bytes": 8192}),
        (["-s", "--stack-bytes", "1048576"], {"stack_bytes": 1048576}),
        (["-s", "--max-events", "5"], {"max_events": 5}),
        (["-s", "--buffer-page-count", "9"], {"buffer_pages": 16}),
        (["-s", "--source"], {"source": True}),
        (["-s", "--syscall-filter", "futex,recvmsg"], {"syscalls": calls("futex", "recvmsg")}),
        (["-s", "--syscall-filter", "futex, read"], {"syscalls": calls("futex", "read")}),
        (["-s", "--skip-syscalls", "futex"], {"skipped": calls("futex")}),
        (["-s", "--skip-syscall-poll-events"], {"skipped": calls(*POLLS)}),
        (
            ["-s", "--skip-syscall-poll-events", "--skip-syscalls", "read"],
            {"skipped": calls(*POLLS, "read")},
        ),
    ],
)
def test_each_option(arguments: list[str], fields: dict[str, Any]) -> None:
    assert plan_of(*arguments) == plan.EventPlan(**fields)


@pytest.mark.parametrize("option", ["--syscall-filter", "--skip-syscalls"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("futx", "there is no system call 'futx' on this machine; closest: futex"),
        ("recv_msg", "closest: recvmsg"),
        ("xyzzy-frobnicate", "'xyzzy-frobnicate' on this machine"),
    ],
)
def test_unknown_name_is_reported_with_the_closest_match(
    option: str, name: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        plan_of("-s", option, f"read,{name}")
    assert message in str(caught.value)


@pytest.mark.parametrize("option", ["--folded", "--syscall-filter", "--skip-syscalls"])
def test_an_option_of_events_without_events(option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} needs --syscall-events"):
        plan_of(option, "read")


@pytest.mark.parametrize(
    "arguments",
    [
        ["-s", "-1"],
        ["-s", "1.5"],
        ["-s", "--stack-mode", "lbr"],
        ["-s", "--stack-bytes", "0"],
        ["-s", "--stack-bytes", "1048577"],
        ["-s", "--stack-trace-size", "-1"],
        ["-s", "--max-events", "0"],
        ["-s", "--syscall-filter", ""],
        ["-s", "--skip-syscalls", "read,,write"],
    ],
)
def test_values_that_make_no_sense(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 64
    error = capsys.readouterr().err
    assert error.startswith("kernel-delay: argument ")
    assert error.count("\n") == 1


def test_every_name_has_its_number() -> None:
    names = syscall_names()
    assert len(names) > 250
    assert all(syscall_number(name) is not None for name in names)


def test_calls_that_no_output_shows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["-p", "1", "-s", "1ms", "--summary"]) == 64
    assert "--summary prints no single calls: leave it or -s out" in capsys.readouterr().err
