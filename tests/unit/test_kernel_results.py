"""From pytest's junit files to the kernel-by-test table and its verdict."""

from pathlib import Path

from tests.kernels import compatibility
from tests.kernels.guest import CONSOLE_TAIL_LINES, Guest
from tests.kernels.images import Image, Kernel
from tests.kernels.results import KernelRun, Outcome, Result, failures, read_junit, reasons

JUNIT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.integration.test_a" name="test_one"/>
<testcase classname="tests.integration.test_a" name="test_two[x]"/>
<testcase classname="tests.integration.test_a" name="test_two[y]">
  <failure message="assert 1 == 2&#10; +  where 1&#10; = one&#10;and more">
    the traceback</failure></testcase>
<testcase classname="tests.integration.test_a" name="test_three[x]">
  <skipped type="pytest.skip" message="no kprobes"/></testcase>
<testcase classname="tests.integration.test_a" name="test_three[y]"/>
<testcase classname="tests.integration.test_b" name="test_four">
  <skipped type="pytest.skip" message="no module"/></testcase>
<testcase classname="tests.integration.test_b" name="test_five">
  <error message="failed on setup"/></testcase>
<testcase classname="" name="tests.integration.test_c">
  <error message="collection failure"/></testcase>
</testsuite></testsuites>
"""


def run_of(tmp_path: Path, junit: str, failure: str = "") -> KernelRun:
    file = tmp_path / "junit.xml"
    file.write_text(junit)
    return KernelRun("Debian 12", "6.1.0-50-amd64", read_junit(file), failure)


def test_variants_are_one_test_that_fails_with_any_and_needs_one_to_apply(tmp_path: Path) -> None:
    outcomes = {name: result.outcome for name, result in run_of(tmp_path, JUNIT).results.items()}
    assert outcomes == {
        "test_a.py::test_one": Outcome.PASSED,
        "test_a.py::test_two": Outcome.FAILED,
        "test_a.py::test_three": Outcome.PASSED,
        "test_b.py::test_four": Outcome.NOT_APPLICABLE,
        "test_b.py::test_five": Outcome.FAILED,
        "(collection).py::tests.integration.test_c": Outcome.FAILED,
    }


def test_a_run_passes_only_if_it_ended_and_something_passed_and_nothing_failed() -> None:
    passed, skipped, failed = (
        Result(Outcome.PASSED),
        Result(Outcome.NOT_APPLICABLE, "no module"),
        Result(Outcome.FAILED),
    )
    assert KernelRun("k", "1", {"a": passed, "b": skipped}).passed
    assert not KernelRun("k", "1", {"a": passed, "b": failed}).passed
    assert not KernelRun("k", "1", {"b": skipped}).passed
    assert not KernelRun("k", "1", {}).passed
    assert not KernelRun("k", "1", {"a": passed}, failure="hung: killed after 900 s").passed


def test_a_test_that_only_another_kernel_ran_is_not_run(tmp_path: Path) -> None:
    hung = KernelRun("Debian 13", "6.12", {}, failure="hung")
    assert hung.result("test_a.py::test_one") == Result(Outcome.NOT_RUN, "hung")


def test_the_page_can_be_read_back(tmp_path: Path) -> None:
    run = run_of(tmp_path, JUNIT)
    other = KernelRun("Debian 13", "6.12.107", dict(list(run.results.items())[:2]))
    text = compatibility.page([run, other], "TCG (emulation)")
    assert compatibility.kernels_on(text) == ["Debian 12", "Debian 13"]
    assert compatibility.tests_on(text) == sorted(run.results)
    assert reasons([run, other]) == {"no module": 1}
    assert "| not applicable (1) | NOT RUN |" in text
    assert "1. no module" in text.splitlines()


def test_a_failed_test_is_told_with_the_beginning_of_why(tmp_path: Path) -> None:
    assert failures(run_of(tmp_path, JUNIT)) == [
        "(collection).py::tests.integration.test_c: collection failure",
        "test_a.py::test_two: [y] assert 1 == 2 |  +  where 1 |  = one",
        "test_b.py::test_five: failed on setup",
    ]


def test_a_guests_last_words_are_lines_without_its_control_characters(tmp_path: Path) -> None:
    kernel = Kernel("k", "suite", "package", "suite")
    guest = Guest(Image(kernel, "1", tmp_path), kvm=False, results=tmp_path)
    assert guest.last_words() == []
    boot = b"".join(b"[    1.%03d] booting\r\n" % number for number in range(1000))
    guest.console.write_bytes(
        boot + b"\x1b[1;31menv: cannot change directory\x1b[0m\r\n\r\n   \n\x00reboot: \xff\n"
    )
    words = guest.last_words()
    assert words[-3:] == ["[    1.999] booting", "env: cannot change directory", "reboot: \ufffd"]
    assert len(words) == CONSOLE_TAIL_LINES
