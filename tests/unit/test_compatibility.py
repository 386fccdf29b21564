"""docs/reference/compatibility.md says what tests/kernels/results.json has, of what is listed."""

from pathlib import Path

from tests.kernels import compatibility
from tests.kernels.images import chosen_tests, host_only_tests, listed_kernels
from tests.kernels.record import PAGE, Record

REPOSITORY = Path(__file__).parents[2]
REWRITE = "run 'python -m tests.kernels.compatibility' to write it again"


def test_what_is_listed_is_there() -> None:
    listed = [*host_only_tests(), *chosen_tests("least"), *chosen_tests("brief")]
    listed += [test for kernel in listed_kernels() for test in kernel.tests]
    for path, _, variant in (test.partition("::") for test in listed):
        function = variant.partition("[")[0]
        assert f"def {function}" in (REPOSITORY / path).read_text(), (path, function)


def test_the_page_is_of_the_results() -> None:
    assert PAGE.read_text() == compatibility.page(Record.read()), REWRITE


def test_the_results_are_of_listed_kernels() -> None:
    names = {kernel.name for kernel in listed_kernels()}
    assert {name for results in Record.read().tests.values() for name in results} <= names
