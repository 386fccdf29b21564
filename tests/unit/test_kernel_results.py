"""From what a guest's tests came to, to the table of kernels and the record of runs."""

import argparse
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kernels import compatibility, images, run
from tests.kernels.guest import CONSOLE_TAIL_LINES, Guest, GuestError
from tests.kernels.images import (
    Image,
    Kernel,
    MissingImageError,
    chosen_tests,
    fetch,
    guest_tests,
    host_only_tests,
    own_kernels,
)
from tests.kernels.record import Circumstances, Outcomes, Record
from tests.kernels.results import (
    DIED,
    KernelRun,
    Outcome,
    Result,
    closing_lines,
    failures,
    footnotes,
    read_outcomes,
    tally,
)

TESTS = """
import pytest

@pytest.fixture
def breaks_at_the_end():
    yield
    raise ValueError("left behind")

def test_one(): pass
def test_two(breaks_at_the_end): pass
@pytest.mark.parametrize("what", ["x", "y"])
def test_three(what):
    if what == "x":
        pytest.skip("no kprobes")
    assert what == "x", "and more"
"""

PASSED, FAILED = Result(Outcome.PASSED), Result(Outcome.FAILED, "assert 1 == 2")
SKIPPED = Result(Outcome.NOT_APPLICABLE, "no module")

FILE = "tests/unit/test_kernel_results.py"
HERE = f"{FILE}::test_run_passes_only_if_it_ended_with_a_pass"
THERE = f"{FILE}::test_a_later_result_stands_in_place_of_an_earlier"
GONE = f"{FILE}::test_that_the_sources_have_no_more"

OLD = Circumstances("Linux 5.14", "5.14.2", "abc1234", "2026-11-20", "TCG")
NEW = replace(OLD, commit="def5678", date="2026-11-23")
OTHER = replace(NEW, kernel="Debian 12", release="6.1.0-50-amd64")


def outcomes_of(folder: Path, text: str) -> dict[str, Result]:
    """What the plugin writes of a file of tests, read."""
    (folder / "test_a.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.kernels.outcomes"]
    written = folder / "outcomes"
    command += [f"--outcomes={written}", f"--rootdir={folder}", str(folder / "test_a.py")]
    subprocess.run(command, capture_output=True, check=False)
    return read_outcomes(written)


def test_each_variant_has_its_outcome_and_reason(tmp_path: Path) -> None:
    assert outcomes_of(tmp_path, TESTS) == {
        "test_a.py::test_one": PASSED,
        "test_a.py::test_two": Result(Outcome.FAILED, "ValueError: left behind"),
        "test_a.py::test_three[x]": Result(Outcome.NOT_APPLICABLE, "no kprobes"),
        "test_a.py::test_three[y]": Result(
            Outcome.FAILED, "AssertionError: and more | assert 'y' == 'x' | - x"
        ),
    }


def test_a_file_that_cannot_be_imported_has_failed(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, "import nothing_of_that_name").items()
    assert outcome[0] == "test_a.py"
    assert outcome[1].outcome is Outcome.FAILED


def test_a_test_that_the_guest_died_of_has_failed(tmp_path: Path) -> None:
    written = tmp_path / "outcomes"
    begun = '{"test": "a.py::test_one", "outcome": "begun", "reason": ""}\n'
    written.write_text(begun + begun.replace("begun", "passed") + begun.replace("one", "two"))
    assert read_outcomes(written) == {
        "a.py::test_one": PASSED,
        "a.py::test_two": Result(Outcome.FAILED, DIED),
    }


class Here(Guest):
    """A guest that is this machine: it has ended where the command ends at once."""

    def run(self, command: list[str], silence_s: float) -> int:
        self.results.mkdir()
        # Else it is what both folders have in common, as /tmp, with whatever others have there.
        root = f"--rootdir={self.results.parent}"
        status = subprocess.run([*command, root], capture_output=True, check=False).returncode
        if status > 5:  # pytest has no such
            raise GuestError("died before its command ended")
        return status


def test_what_comes_behind_the_end_of_a_guest_runs_in_another(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import os\n"
        "def test_one(): pass\n"
        "def test_one_dies(): os._exit(9)\n"
        "def test_two(): os._exit(9)\n"
        "def test_two_again(): pass\n"
    )
    guest = Here(Image(Kernel("k", "trixie"), "1", tmp_path), kvm=False, results=tmp_path / "1")
    options = argparse.Namespace(tests=[str(tmp_path)], choice=None, limit=1)
    found = run.run_tests(guest, [], options)
    assert {test.rpartition(":")[2]: result.outcome for test, result in found.results.items()} == {
        "test_one": Outcome.PASSED,
        "test_one_dies": Outcome.FAILED,
        "test_two": Outcome.FAILED,
        "test_two_again": Outcome.PASSED,
    }
    assert not found.failure
    assert not found.passed


def test_run_passes_only_if_it_ended_with_a_pass() -> None:
    assert KernelRun("k", "1", {"a": PASSED, "b": SKIPPED}).passed
    assert not KernelRun("k", "1", {"a": PASSED, "b": FAILED}).passed
    assert not KernelRun("k", "1", {"b": SKIPPED}).passed
    assert not KernelRun("k", "1", {}).passed
    assert not KernelRun("k", "1", {"a": PASSED}, failure="hung: killed after 900 s").passed


def test_a_failed_test_is_named_with_the_reason() -> None:
    assert failures(KernelRun("k", "1", {"a": PASSED, "b": FAILED})) == ["b: assert 1 == 2"]


def test_the_closing_lines_name_the_kernel_and_are_short() -> None:
    long = Result(Outcome.FAILED, "x" * 1000)
    lines = closing_lines(KernelRun("k", "1", {"a": PASSED, "b": FAILED, "c": long}, "hung"))
    assert lines[:2] == ["FAILED k: hung", "FAILED k: b: assert 1 == 2"]
    assert lines[2].startswith("FAILED k: c: xxx")
    assert len(lines) == 3
    assert len(lines[2]) < 400


def test_a_cell_counts_and_refers_to_the_reasons() -> None:
    other = Result(Outcome.NOT_APPLICABLE, "no kprobes")
    notes = footnotes([SKIPPED, PASSED, other, SKIPPED])
    assert notes == {"no module": 1, "no kprobes": 2}
    assert tally([], notes) == "-"
    assert tally([PASSED, PASSED], notes) == "2"
    assert tally([PASSED, SKIPPED, other, SKIPPED, FAILED], notes) == "1, 3 n/a [1, 2], 1 FAILED"


def test_a_later_result_stands_in_place_of_an_earlier() -> None:
    record = Record().merged(Outcomes(NEW, {HERE: FAILED}))
    record = record.merged(Outcomes(OLD, {HERE: PASSED, THERE: PASSED}))
    record = record.merged(Outcomes(OTHER, {HERE: SKIPPED}))
    assert list(record.of("Linux 5.14")) == [(THERE, OLD, PASSED), (HERE, NEW, FAILED)]
    assert list(record.of("Debian 12")) == [(HERE, OTHER, SKIPPED)]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = Outcomes(NEW, {HERE: FAILED, THERE: PASSED})
    run.write(tmp_path / "run.json")
    assert Outcomes.read(tmp_path / "run.json") == run
    record = Record().merged(run).merged(Outcomes(OTHER, {HERE: SKIPPED}))
    record.write(tmp_path / "results.json")
    assert Record.read(tmp_path / "results.json") == record
    Record().write(tmp_path / "results.json")
    assert Record.read(tmp_path / "results.json") == Record()


def test_tests_that_are_gone_leave_the_record() -> None:
    record = Record().merged(Outcomes(NEW, {HERE: PASSED, GONE: PASSED})).current()
    assert list(record.tests) == [HERE]


def test_tests_of_the_host_leave_the_record(project: Path) -> None:
    names = [name for name in host_only_tests() if "::" in name]
    variant = f"{names[0]}[variant]"
    whole = next(name for name in host_only_tests() if name.endswith(".py"))
    (function, *_) = re.findall(r"^def (test_\w+)", (project / whole).read_text(), re.MULTILINE)
    results = dict.fromkeys([HERE, variant, f"{whole}::{function}"], FAILED)
    assert list(Record().merged(Outcomes(NEW, results)).current().tests) == [HERE]


def test_the_page_has_counts_failures_and_reasons() -> None:
    record = Record().merged(Outcomes(OLD, {HERE: PASSED, THERE: PASSED}))
    record = record.merged(Outcomes(NEW, {HERE: FAILED}))
    record = record.merged(Outcomes(OTHER, {HERE: SKIPPED, THERE: PASSED}))
    lines = compatibility.page(record).splitlines()
    # What ran at another commit than the newest has a letter, which its row explains.
    assert (
        "| Linux 5.14 | 5.14.2 | 1 | 0 | 1 | 2026-11-23, def5678, TCG: 1. "
        "(a) 5.14.2, 2026-11-20, abc1234, TCG: 1 |"
    ) in lines
    assert "| Linux 5.15 | | | | | not run |" in lines
    assert "| file | Linux 5.14 | Debian 12 |" in lines
    assert f"| `{FILE}` | 1, 1 FAILED (a) | 1, 1 n/a [1] |" in lines
    assert f"- Linux 5.14, def5678: `{HERE}`: `` assert 1 == 2 ``" in lines
    assert "1. no module" in lines


def test_missing_image_is_not_run_and_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(images.FOLDER_VARIABLE, str(tmp_path))
    kernel = Kernel("Linux 5.14", open_vswitch="trixie", image="linux-5.14")
    with pytest.raises(MissingImageError, match=r"kernel-image\.sh builds one"):
        fetch(kernel)
    booted, (missing,) = run.images_of([kernel])
    assert booted == []
    assert missing.not_run.startswith(f"{tmp_path}/linux-5.14 is not there")
    # Documentation/x86/boot.rst: the version is as far behind 0x200 as 0x20e says.
    head = bytearray(0x400)
    head[0x20E:0x210] = (0x100).to_bytes(2, "little")
    head[0x300:0x310] = b"5.14.2 (me@here)"
    (tmp_path / "linux-5.14").write_bytes(head)
    assert fetch(kernel) == Image(kernel, "5.14.2", tmp_path / "linux-5.14")


def test_image_of_arm64_says_its_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(images.FOLDER_VARIABLE, str(tmp_path))
    kernel = Kernel("k", open_vswitch="trixie", image="linux-64k", architecture="arm64")
    # Documentation/arm64/booting.rst (5.14): the magic number, and text that is not compressed.
    image = bytes(0x38) + b"ARM\x64" + bytes(0x1000) + b"Linux version 6.12.5 (me@here) (gcc)\0"
    (tmp_path / "linux-64k").write_bytes(image)
    assert fetch(kernel) == Image(kernel, "6.12.5", tmp_path / "linux-64k")
    assert fetch(kernel).modules is None


def test_images_are_beside_the_repository_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(images.FOLDER_VARIABLE, raising=False)
    assert images.image_folder() == images.REPOSITORY.parent / "shared" / "kernels"


def test_least_is_part_of_brief_on_two_kernels() -> None:
    assert set(chosen_tests("least")) <= set(chosen_tests("brief"))
    for_all = [kernel for kernel in own_kernels() if not kernel.tests]
    assert [kernel for kernel in for_all if kernel.least] == [for_all[0], for_all[-1]]


def test_what_is_the_hosts_alone_runs_only_if_named() -> None:
    alone = "tests/integration/test_demo.py"
    assert f"--ignore={alone}" in guest_tests()
    assert f"--ignore={alone}" in guest_tests(["tests/integration/capture"])
    assert f"--ignore={alone}" not in guest_tests([f"{alone}::test_a"])


def test_last_words_of_a_guest_have_no_control_characters(tmp_path: Path) -> None:
    kernel = Kernel("k", open_vswitch="trixie")
    guest = Guest(Image(kernel, "1", tmp_path), kvm=False, results=tmp_path)
    assert guest.last_words() == []
    boot = b"".join(b"[    1.%03d] booting\r\n" % number for number in range(1000))
    guest.console.write_bytes(
        boot + b"\x1b[1;31menv: cannot change directory\x1b[0m\r\n\r\n   \n\x00reboot: \xff\n"
    )
    words = guest.last_words()
    assert words[-3:] == ["[    1.999] booting", "env: cannot change directory", "reboot: \ufffd"]
    assert len(words) == CONSOLE_TAIL_LINES
