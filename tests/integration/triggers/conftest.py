"""Workloads with triggers, and captures of them."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.triggers.sessions import Command, StartCommand
from tests.integration.triggers.targets import StartTarget, Target
from tests.workload import compile_workload


@pytest.fixture(scope="session")
def rounds_program() -> Path:
    return compile_workload("rounds")


@pytest.fixture(scope="session")
def hits_program() -> Path:
    return compile_workload("hits")


@pytest.fixture
def start_rounds(uprobes: None, rounds_program: Path, closing: ExitStack) -> StartTarget:
    """Start tests/workloads/rounds.c."""
    return _starter(rounds_program, closing)


@pytest.fixture
def start_hits(uprobes: None, hits_program: Path, closing: ExitStack) -> StartTarget:
    """Start tests/workloads/hits.c."""
    return _starter(hits_program, closing)


def _starter(program: Path, closing: ExitStack) -> StartTarget:
    def start(*arguments: object) -> Target:
        workload = Target([program, *arguments])
        closing.callback(workload.kill)
        return workload

    return start


@pytest.fixture
def start_command(measurable: None, tmp_path: Path, closing: ExitStack) -> StartCommand:
    """Start kernel-delay with some arguments."""

    def start(*arguments: object) -> Command:
        command = Command(tmp_path, *arguments)
        closing.callback(command.kill)
        return command

    return start
