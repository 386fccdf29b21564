"""Processes whose system calls are known."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cache import built
from tests.event_captures import Start
from tests.needs import needed

FLAGS = (
    *("-O2", "-g", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"),
    *("-pthread", "-Wall", "-Werror"),
)


@pytest.fixture
def start(root_user: None, project: Path) -> Iterator[Start]:
    """Build a workload, start it, and wait until it is ready; it is killed at the end."""
    compiler = needed("cc")
    with ExitStack() as closing:

        def build_and_start(name: str, *arguments: str) -> "subprocess.Popen[bytes]":
            source = project / "tests" / "workloads" / f"{name}.c"

            def make(folder: Path) -> None:
                subprocess.run([compiler, *FLAGS, source, "-o", folder / name], check=True)

            program = built(name, make, source, FLAGS) / name
            pipe = subprocess.PIPE
            process = closing.enter_context(
                subprocess.Popen([program, *arguments], stdin=pipe, stdout=pipe)
            )
            closing.callback(process.kill)
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
            return process

        yield build_and_start
