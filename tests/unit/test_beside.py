"""Tests that have a CPU to themselves are not run beside each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.beside import LONGEST, names_a_cpu

# Two files that name a CPU, and two that don't: each says when it ran.
NAMES_ONE = "import os\nCPU = max(os.sched_getaffinity(0))\n"
NAMES_NONE = "CPU = None\n"
TEST = """
import time
def test_it():
    assert CPU != 0.5
    start = time.monotonic()
    time.sleep(0.5)
    print("ran", __name__, start, time.monotonic())
"""


@pytest.mark.parametrize("name", ["capture/test_causes.py", "test_demo.py"])
def test_who_takes_a_cpu_names_it(project: Path, name: str) -> None:
    assert names_a_cpu(project / "tests" / "integration" / name)


def test_others_name_none(project: Path) -> None:
    assert not names_a_cpu(project / "tests" / "integration" / "test_check.py")


IMPORTED = """
import os, pytest
def hog():
    os.sched_setscheduler(0, 1, 1)
def count():
    return 1
"""
IMPORTS = """
from tests.imported import count, hog as taker
CPU = max(os.sched_getaffinity(0))
@pytest.fixture
def hogged():
    taker()
def test_constant():
    assert CPU
def test_fixture(hogged):
    pass
@pytest.mark.usefixtures("hogged")
class TestClass:
    def test_method(self):
        pass
@pytest.mark.parametrize("cpu", [CPU])
def test_parameter(cpu):
    pass
def test_other():
    assert count()
"""


def test_what_a_test_refers_to_is_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "imported.py").write_text(IMPORTED)
    (folder / "test_importing.py").write_text(IMPORTS)
    assert names_a_cpu(folder / "imported.py") == {"hog"}
    found = names_a_cpu(folder / "test_importing.py")
    assert found == {
        *("taker", "CPU", "hogged", "TestClass"),
        *("test_constant", "test_fixture", "test_parameter"),
    }
    (folder / "test_auto.py").write_text(
        IMPORTS.replace("pytest.fixture", "pytest.fixture(autouse=True)").replace(
            "    taker()", "    os.sched_setscheduler(0, 1, 1)"
        )
    )
    assert "test_other" in names_a_cpu(folder / "test_auto.py")


def test_the_longest_files_are_there(project: Path) -> None:
    assert all((project / file).is_file() for file in LONGEST)


@pytest.mark.long
def test_tests_that_name_a_cpu_run_one_by_one(project: Path, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"test_cpu_{number}.py").write_text(NAMES_ONE + TEST)
        (tmp_path / f"test_other_{number}.py").write_text(NAMES_NONE + TEST)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["-n", "3", "--dist", "loadfile", "-rP", f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    ran = {name: span for name, *span in re.findall(r"^ran (\w+) (\S+) (\S+)$", done.stdout, re.M)}
    assert len(ran) == 4
    first, second = sorted([ran["test_cpu_0"], ran["test_cpu_1"]], key=lambda span: float(span[0]))
    assert float(first[1]) <= float(second[0])
