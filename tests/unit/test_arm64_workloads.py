"""The programs that tests measure compile for arm64 too; only a guest of that can run them."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.needs import needed
from tests.workload import FLAGS, SOURCES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="the compiler there is arm64's"),
]

# What x86-64 alone has: two ABIs, its own virtual machines and its time stamp counter.
OF_X86_64 = {"both_abis", "machine", "tsc_khz"}
SDT_HEADERS = Path("/usr/include/x86_64-linux-gnu")
"""That of the probes, which is of all architectures."""


@pytest.mark.parametrize(
    "name", sorted({source.stem for source in SOURCES.glob("*.c")} - OF_X86_64)
)
def test_workload_compiles_for_arm64(name: str, tmp_path: Path) -> None:
    (tmp_path / "sys").symlink_to(SDT_HEADERS / "sys")
    compiler = needed("aarch64-linux-gnu-gcc")
    command = [compiler, *FLAGS, "-c", str(SOURCES / f"{name}.c"), f"-idirafter{tmp_path}"]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "object")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
