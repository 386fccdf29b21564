"""Processes whose system calls are known."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.event_captures import Start
from tests.workload import Workload, compile_workload

# A frame for each call, and no frame pointer to find it by.
FLAGS = ("-fomit-frame-pointer", "-fno-optimize-sibling-calls")


@pytest.fixture
def start(root_user: None) -> Iterator[Start]:
    """Compile a workload, start it, and wait until it is ready; it is killed at the end."""
    with ExitStack() as closing:

        def compile_and_start(name: str, *arguments: str) -> Workload:
            workload = Workload([compile_workload(name, *FLAGS), *arguments])
            closing.callback(workload.kill)
            assert workload.greeting == "ready"
            return workload

        yield compile_and_start
