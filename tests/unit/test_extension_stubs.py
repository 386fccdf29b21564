"""The types of the extensions are those of what was compiled."""

import subprocess
import sys
from pathlib import Path

import pytest

from setup.extension_stubs import EXTENSIONS, Stub, path_of

WRONG = """
from kernel_delay.loader._records import ffi, lib

record = ffi.new("struct thread_record *")
print(record.gone)
lib.end_window(record, 1, 2)
ffi.addressof(record.account, "first").state = "running"
"""


@pytest.mark.parametrize("module", EXTENSIONS)
def test_stubs_are_of_the_headers(module: str) -> None:
    assert path_of(module).read_text() == Stub(module).text(), "run `make stubs`"


def test_mistakes_at_the_boundary_are_type_errors(project: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(project / "pyproject.toml")]
    checked = subprocess.run(
        [*mypy, "--no-error-summary", str(tmp_path / "wrong.py")],
        cwd=project,
        capture_output=True,
        text=True,
    )
    lines = [line.partition("wrong.py:")[2] for line in checked.stdout.splitlines()]
    errors = [line for line in lines if " error: " in line]
    assert [line.partition(":")[0] for line in errors] == ["5", "6", "7"], checked.stdout
    assert '"ThreadRecordPointer" has no attribute "gone"' in errors[0]
    assert "ControlPointer" in errors[1]
