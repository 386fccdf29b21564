import os
import shutil
from pathlib import Path

import pytest

from tests.cache import built
from tests.integration.symbols import call_chains


@pytest.fixture(scope="session")
def call_chain() -> Path:
    for tool in ("gcc", "objcopy", "strip"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is needed to build the workload")
    if os.geteuid():
        pytest.skip("stopping another process's threads needs root")
    sources = sorted(call_chains.WORKLOADS.glob("call_chain*"))
    folder = built("call_chain", call_chains.build, *sources, Path(call_chains.__file__))
    return folder / "call_chain"
