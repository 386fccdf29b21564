"""What the tests need is installed by `make test`: what is missing is a failure, not a skip."""

import shutil
from pathlib import Path

import pytest

SDT_HEADER = "sys/sdt.h"


def needed(*programs: str) -> str:
    """The first program's path; the test fails if one of them is not there."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.fail(_said(", ".join(missing)), pytrace=False)
    return str(shutil.which(programs[0]))


def need_sdt_header() -> None:
    """The test fails without <sys/sdt.h>."""
    if not list(Path("/usr/include").rglob(SDT_HEADER)):
        pytest.fail(_said(f"<{SDT_HEADER}>"), pytrace=False)


def _said(missing: str) -> str:
    return (
        f"{missing}: not installed; `make test-host` installs what setup/packages-build.txt and"
        " packages-test.txt list"
    )
