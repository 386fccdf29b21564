"""A Node.js server that nobody asks."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.programs import installed
from tests.verdicts.staging import program
from tests.verdicts.truth import HEALTHY, Staged

SCRIPT = """
require("http").createServer().listen(0, "127.0.0.1", () => console.log("{}"))
"""


@contextmanager
def stage() -> Iterator[Staged]:
    with program(installed("node"), "-e", SCRIPT) as process:
        yield Staged(process.pid, HEALTHY)
