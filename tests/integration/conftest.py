"""What the integration tests need from the machine, or the reason to skip."""

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def genl_redirect(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """genl_redirect.c, built; skips without ovs-dpctl or a C compiler."""
    for program in ("ovs-dpctl", "cc"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    target = tmp_path_factory.mktemp("preload") / "genl_redirect.so"
    source = Path(__file__).with_name("genl_redirect.c")
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-O2", "-shared", "-fPIC", "-o"]
    subprocess.run([*command, target, source, "-ldl"], check=True)
    return target
