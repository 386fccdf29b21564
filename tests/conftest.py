"""What every test may use."""

import gc
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernel_delay.errors import KernelDelayError
from kernel_delay.host import preflight

if TYPE_CHECKING:
    from tests.beside import OneForEachCpu


def pytest_configure() -> None:
    """Have the programs that tests start take Ctrl-C, also where this one runs in the background.

    A shell without job control has what it runs in the background ignore SIGINT, and nohup(1)
    SIGHUP, and so does then all that this starts. A handler is not inherited.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or "PYTEST_XDIST_WORKER" in os.environ:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_collection() -> None:
    """Have nothing collected as garbage while the tests are: they stay to the end."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Have no later collection go through the tests again: that took a tenth of the CPU's time."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> "OneForEachCpu":
    """Have several processes of pytest share the tests so that they don't disturb each other."""
    from tests.beside import OneForEachCpu

    return OneForEachCpu(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for which reason, the most first."""
    skipped = terminalreporter.stats.get("skipped", [])
    # A report of a skip has the place and "Skipped: REASON".
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{len(skipped)} skipped, by reason")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {' '.join(reason.split())}")


@pytest.fixture(scope="session")
def project() -> Path:
    """The root of the source tree."""
    return Path(__file__).parent.parent


@pytest.fixture(scope="session")
def root_user() -> None:
    """Skips where the test can't be root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(scope="session")
def measurable() -> None:
    """Skips where this user on this kernel can measure nothing."""
    try:
        preflight.check()
    except KernelDelayError as error:
        pytest.skip(str(error))
