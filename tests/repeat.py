"""python -m tests.repeat [COMMAND...]: does the test command pass each time, also under load?

Runs it again and again, every second time beside what keeps the CPUs busy. A line for each run goes
to stdout and to runs.txt in the folder of the results: what, at which commit, when, how long it
took, how it ended, and what failed. The output of run 3 is in run-3.log beside that. Exit status 1
if any run failed, also of those that --resume goes on behind.
"""

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.kernels.record import commit

PROJECT = Path(__file__).parent.parent
RESULTS = PROJECT / "build" / "repeat"

# pytest's closing lines, and those of tests/kernels/run.py: a test there, or a guest that ended.
FAILURE = re.compile(
    r"^FAILED (?P<guest>[\w .]+: \S+?\.py(?:::\w+(?:\[.*?\])?)?): "
    r"|^(?:FAILED|ERROR) (?P<test>\S+?(?:\[.*?\])?)(?: - .*)?$"
    r"|^(?P<died>[\w .]+) \([\w.+-]+\): FAILED: (?!see the table)"
)

# How a line of a run ends that passed.
PASSED = "passed"


@contextmanager
def beside(command: list[str]) -> Iterator[None]:
    """Have the command run meanwhile; SystemExit if it ended by itself."""
    if not command:
        yield
        return
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if process.poll() is not None:
            sys.exit(f"repeat: {shlex.join(command)} ended meanwhile, with {process.returncode}")
    finally:
        process.terminate()
        process.wait()


def failures(output: str) -> list[str]:
    """What failed, by name, each once."""
    found = (FAILURE.match(line) for line in output.splitlines())
    return list(dict.fromkeys(next(filter(None, each.groups())) for each in found if each))


def run(number: int, command: list[str], load: list[str], results: Path) -> tuple[bool, str]:
    """Run it once; whether it passed, and the line that tells of it."""
    log = results / f"run-{number}.log"
    began, start = datetime.now(), time.monotonic()
    with beside(load), open(log, "wb") as output:
        status = subprocess.call(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=PROJECT
        )
    took_s = round(time.monotonic() - start)
    how = PASSED if status == 0 else f"FAILED ({status})"
    names = failures(log.read_text(errors="replace"))
    words = [
        f"run {number}",
        shlex.join(command),
        commit(),
        f"{began:%Y-%m-%d %H:%M:%S}",
        f"beside {shlex.join(load)}" if load else "alone",
        f"{took_s // 60} min {took_s % 60:02} s",
        ": ".join([how, ", ".join(names)]) if names else how,
    ]
    return status == 0, " | ".join(words)


def main() -> int:
    """Run it as often as asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", default="stress-ng --cpu 2", help="beside every second run")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--resume", action="store_true", help="go on behind the runs that runs.txt has"
    )
    parser.add_argument("command", nargs="*", help="make test, if there is none")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    command = options.command or ["make", "test"]
    path = options.results / "runs.txt"
    before = path.read_text().splitlines() if options.resume and path.exists() else []
    passed = [line.endswith(f" | {PASSED}") for line in before]
    with open(path, "a" if before else "w") as table:
        for number in range(len(before) + 1, options.runs + 1):
            load = shlex.split(options.load) if number % 2 == 0 else []
            good, line = run(number, command, load, options.results)
            passed.append(good)
            print(line, flush=True)
            print(line, file=table, flush=True)
    print(f"{sum(passed)} of {len(passed)} runs passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
