"""What every test may use."""

import os
import signal
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Have the programs that tests start take Ctrl-C, also where this one runs in the background.

    A shell without job control has what it runs in the background ignore SIGINT, and so
    does then all that this starts.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the source tree."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root_user() -> None:
    """Skips where the test can't be root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
