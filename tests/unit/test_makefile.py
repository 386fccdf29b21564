"""`make test` runs all of its parts, whatever becomes of each."""

import os
import subprocess
from pathlib import Path

PARTS = """
passes:
	@echo this one passes
fails:
	@echo this one fails; exit 3
"""


def make_test(project: Path, folder: Path, *parts: str) -> "subprocess.CompletedProcess[str]":
    """Run `make test` with other parts."""
    file = folder / "parts.mk"
    file.write_text(PARTS)
    # Not as a part of the `make test` that runs this.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "test", f"TEST_PARTS={' '.join(parts)}"],
        cwd=project,
        env={**outside, "MAKEFILES": str(file)},
        capture_output=True,
        text=True,
    )


def test_a_part_that_fails_keeps_no_other_from_running(project: Path, tmp_path: Path) -> None:
    done = make_test(project, tmp_path, "fails", "passes")
    assert done.returncode != 0
    assert done.stdout.splitlines() == ["this one fails", "this one passes"]
    how = [line.rpartition(",")[0] for line in done.stderr.splitlines() if "test: " in line]
    assert how == ["test: FAILED fails", "test: passed passes"]


def test_it_passes_if_all_parts_do(project: Path, tmp_path: Path) -> None:
    done = make_test(project, tmp_path, "passes", "passes")
    assert (done.returncode, done.stdout) == (0, "this one passes\n" * 2)


def test_its_parts_are_unit_integration_and_guests(project: Path) -> None:
    command = ["make", "--dry-run", "test"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert "for part in test-unit test-integration test-kernels-least;" in done.stdout
