"""On a kernel that is too old each command is refused in one line, before anything is loaded.

Not among the ordinary tests: tests/kernels/kernels.toml has a kernel on which only these run.
"""

import os

import pytest

from tests import commands

REFUSED = "kernel-delay: this kernel's BPF has no bpf_get_current_task_btf() and no task storage"
COMMANDS = (
    (),
    ("-s",),
    ("watch", "-o", "/tmp/rounds"),
    ("bridge-loop",),
    ("revalidator",),
    ("flows",),
    ("datapath-ops",),
    ("upcall-cost",),
    ("upcall-monitor",),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "capture")
def test_each_command_is_refused_in_one_line(command: tuple[str, ...]) -> None:
    result = commands.run(*command, "--pid", os.getpid())
    assert result.returncode == os.EX_UNAVAILABLE, result.stderr
    assert result.stderr.startswith(REFUSED)
    assert result.stderr.count("\n") == 1
    assert not result.stdout


def test_check_says_the_same() -> None:
    result = commands.run("check", "--pid", os.getpid())
    assert result.returncode == os.EX_UNAVAILABLE, result.stderr
    assert REFUSED.removeprefix("kernel-delay: ") in result.stdout
