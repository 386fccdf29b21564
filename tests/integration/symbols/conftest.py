import os
from pathlib import Path

import pytest

from tests.cache import built
from tests.integration.symbols import call_chains
from tests.needs import needed
from tests.workload import SOURCES


@pytest.fixture(scope="session")
def call_chain() -> Path:
    needed("gcc", "objcopy", "strip")
    if os.geteuid():
        pytest.skip("stopping another process's threads needs root")
    sources = sorted(SOURCES.glob("call_chain*"))
    folder = built("call_chain", call_chains.build, *sources, Path(call_chains.__file__))
    return folder / "call_chain"
