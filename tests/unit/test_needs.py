"""A test that can't run: for want of what is to be installed it fails, else the reason is told."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needed


def test_a_program_that_is_not_installed_is_a_failure() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"^no-such-program: not installed; "):
        needed("sh", "no-such-program")


def test_one_that_is_there_is_found() -> None:
    assert Path(needed("sh", "env")).name == "sh"


def test_skips_are_reported_by_reason(tmp_path: Path, project: Path) -> None:
    tests = tmp_path / "test_skips.py"
    tests.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', range(3))\n"
        "def test_a(n): pytest.skip('no such kernel')\n"
        "@pytest.mark.skip(reason='no such CPU')\n"
        "def test_b(): pass\n"
        "def test_c(): pytest.skip('no such kernel')\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += [f"--rootdir={tmp_path}", str(tests)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    _, _, reported = done.stdout.partition("5 skipped, by reason")
    assert re.findall(r"^ +(\d+)  (.*)$", reported, re.MULTILINE) == [
        ("4", "no such kernel"),
        ("1", "no such CPU"),
    ]
