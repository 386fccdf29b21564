"""Memory of a process whose pages a FUSE server has to supply, and does not.

`make test-hanging` runs these one after the other: beside pytest-xdist's processes the end of the
tool was seen late, and why is not known.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import fuse_mappings

NOBODY = 65534


@pytest.mark.parametrize("options", [("where",), ("capture", "--sample-time", "0.2", "-s")])
def test_code_whose_fuse_server_does_not_answer_costs_names_alone(
    options: Sequence[str], tmp_path: Path
) -> None:
    output = tmp_path / "output"
    with fuse_mappings.mapped(NOBODY) as (pid, _), output.open("wb") as file:
        command = [sys.executable, "-m", "kernel_delay", *options, "-p", str(pid)]
        tool = subprocess.Popen(command, stdout=file, stderr=file)
        # Nothing ends a tool that waits for the server, but for the server's end.
        assert tool.wait(30) == 0
    assert "a read took longer than 2 s" in output.read_text().replace("\n# ", " ")


@pytest.mark.parametrize("options", [(), ("-s",), ("--chains",)])
def test_poll_of_memory_whose_fuse_server_does_not_answer_is_measured(
    options: Sequence[str], tmp_path: Path
) -> None:
    output = tmp_path / "output"
    with fuse_mappings.mapped(NOBODY, polls=True) as (pid, _), output.open("wb") as file:
        command = [sys.executable, "-m", "kernel_delay", "--sample-time", "0.2", "-p", str(pid)]
        tool = subprocess.Popen([*command, *options], stdout=file, stderr=file)
        assert tool.wait(30) == 0
    assert f"({pid})" in output.read_text()
