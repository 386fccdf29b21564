"""docs/compatibility.md is of the kernels that are listed and the tests that run on them."""

import subprocess
import sys
from pathlib import Path

from tests.kernels import compatibility
from tests.kernels.images import brief_tests, guest_tests, host_only_tests, listed_kernels

REPOSITORY = Path(__file__).parents[2]
REWRITE = "run 'make compatibility' to write it again"


def integration_tests() -> set[str]:
    """As `file.py::function`, without the parameters of a parametrized one."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    command += guest_tests()
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_what_is_listed_is_there() -> None:
    tests = [test.partition("::") for test in [*host_only_tests(), *brief_tests()]]
    for path, _, variant in tests:
        function = variant.partition("[")[0]
        assert f"def {function}" in (REPOSITORY / path).read_text(), (path, function)


def test_its_kernels_are_those_of_the_list() -> None:
    text = compatibility.PAGE.read_text()
    names = [kernel.name for kernel in listed_kernels()]
    assert compatibility.kernels_on(text) == names, REWRITE


def test_its_tests_are_the_integration_tests() -> None:
    collected = {test.partition("[")[0].rpartition("/")[2] for test in integration_tests()}
    assert set(compatibility.tests_on(compatibility.PAGE.read_text())) == collected, REWRITE
