"""docs/compatibility.md is of the kernels that are listed and the tests that run on them."""

from pathlib import Path

from tests.kernels import compatibility
from tests.kernels.images import chosen_tests, host_only_tests, listed_kernels

REPOSITORY = Path(__file__).parents[2]
REWRITE = "run 'make compatibility' to write it again"


def test_what_is_listed_is_there() -> None:
    listed = [*host_only_tests(), *chosen_tests("least"), *chosen_tests("brief")]
    for path, _, variant in (test.partition("::") for test in listed):
        function = variant.partition("[")[0]
        assert f"def {function}" in (REPOSITORY / path).read_text(), (path, function)


def test_its_kernels_are_those_of_the_list() -> None:
    text = compatibility.PAGE.read_text()
    names = [kernel.name for kernel in listed_kernels()]
    assert compatibility.kernels_on(text) == names, REWRITE


def test_its_tests_are_the_integration_tests() -> None:
    listed = set(compatibility.tests_on(compatibility.PAGE.read_text()))
    assert listed == compatibility.collected_tests(), REWRITE
