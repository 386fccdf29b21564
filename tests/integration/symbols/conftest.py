import os
import shutil
from pathlib import Path

import call_chains
import pytest


@pytest.fixture(scope="session")
def call_chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool in ("gcc", "objcopy", "strip"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is needed to build the workload")
    if os.geteuid():
        pytest.skip("stopping another process's threads needs root")
    return call_chains.build(tmp_path_factory.mktemp("call_chain"))
