"""What every test may use."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the source tree."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root_user() -> None:
    """Skips where the test can't be root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
