"""What tests start takes signals that whoever started the tests ignores."""

import subprocess
import sys
from pathlib import Path

import pytest

# Whether sleep(1) ends of a signal.
TEST = """
import signal, subprocess
def test_it():
    for number in (signal.SIGINT, signal.SIGHUP):
        process = subprocess.Popen(["sleep", "60"])
        process.send_signal(number)
        assert process.wait(30) == -number
"""


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["alone", "in a worker"])
def test_they_take_ctrl_c_and_hangups(
    project: Path, tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "test_signals.py").write_text(TEST)
    ignoring = ["sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh"]
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += [f"--rootdir={tmp_path}", *processes, str(tmp_path)]
    done = subprocess.run([*ignoring, *command], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
