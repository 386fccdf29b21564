"""Memory of a process whose pages a FUSE server has to supply, and does not."""

import sys
from collections.abc import Sequence

import pytest

from tests import fuse_mappings
from tests.fuse_processes import output_of

NOBODY = 65534


@pytest.mark.parametrize("options", [("where",), ("capture", "--sample-time", "0.2", "-s")])
def test_code_whose_fuse_server_does_not_answer_costs_names_alone(options: Sequence[str]) -> None:
    with fuse_mappings.mapped(NOBODY) as (pid, _):
        said = output_of(sys.executable, "-m", "kernel_delay", *options, "-p", pid)
    assert "a read took longer than 2 s" in said.replace("\n# ", " ")


@pytest.mark.parametrize("options", [(), ("-s",), ("--chains",)])
def test_poll_of_memory_whose_fuse_server_does_not_answer_is_measured(
    options: Sequence[str],
) -> None:
    command = ["kernel_delay", "--sample-time", "0.2", *options]
    with fuse_mappings.mapped(NOBODY, polls=True) as (pid, _):
        said = output_of(sys.executable, "-m", *command, "-p", pid)
    assert f"({pid})" in said


@pytest.mark.parametrize("options", [("where",), (), ("-s",), ("--chains",)])
def test_process_whose_address_space_is_locked_is_measured(options: Sequence[str]) -> None:
    """Its title and the files that it maps can't be read: only SIGKILL ends a wait for the lock."""
    window = () if options == ("where",) else ("--sample-time", "0.2")
    with fuse_mappings.locked() as pid:
        said = output_of(sys.executable, "-m", "kernel_delay", *options, *window, "-p", pid)
    assert f"({pid})" in said
