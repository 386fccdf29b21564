"""CPython interpreters that are installed, programs for them, and what `where` shows of these."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from kernel_delay.where import ThreadPosition, Where
from tests import commands
from tests.needs import need_registers

# The interpreters of pyenv that are not in use have no name in the path.
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
NAMES = (
    sys.executable,
    "/usr/bin/python3.11",
    *(f"python3.{minor}" for minor in range(8, 15)),
    *sorted(map(str, PYENV.glob("3.*/bin/python3"))),
)


def version_of(program: str) -> str:
    """Its hexadecimal version; "" of a name in the place of a version that is not in use."""
    command = [program, "-S", "-c", "import sys; print(f'{sys.hexversion:08x}')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


# Those that are installed, one of each version whose frames are known.
VERSIONS = {program: version_of(program) for program in filter(None, map(shutil.which, NAMES))}
INTERPRETERS = tuple(
    {version: program for program, version in VERSIONS.items() if version >= "03080000"}.values()
)

# The oldest, the newest and the one in use: `make test-long` has the others.
_FIRST = (
    INTERPRETERS[0],
    min(INTERPRETERS, key=VERSIONS.__getitem__),
    max(INTERPRETERS, key=VERSIONS.__getitem__),
)
of_each_interpreter = pytest.mark.parametrize(
    "interpreter",
    [pytest.param(each, marks=[] if each in _FIRST else pytest.mark.long) for each in INTERPRETERS],
)


@contextmanager
def script(
    interpreter: Sequence[str], file: Path, source: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a program of Python's; it is there when it has printed a line."""
    file.write_text(source)
    command = [*interpreter, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def where(pid: int) -> dict[int, ThreadPosition]:
    need_registers()
    done = commands.run("where", "-p", pid, "--json")
    assert done.returncode == os.EX_OK, done.stderr
    (process,) = msgspec.json.decode(done.stdout, type=Where).processes
    assert process.remarks == (), process.remarks
    return {thread.tid: thread for thread in process.threads}


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def is_asleep(tid: int) -> bool:
    return Path(f"/proc/{tid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
