"""python -m tests.verdicts.run: stage the causes, measure each, and say how true the verdicts are.

Exits with 1 if a verdict was false, fewer than 95 % of them right, or a case could not be measured.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.model import Sample
from tests import commands
from tests.verdicts import oracle
from tests.verdicts.causes.chains import STAGES as CHAINS
from tests.verdicts.judge import Judgement, Outcome, judge, witness
from tests.verdicts.staging import LIFE_S, program
from tests.verdicts.truth import NotHereError, Stage, Staged, Truth

HERE = Path(__file__).parent
KINDS = ("causes", "healthy")
OUTCOMES: tuple[Outcome, ...] = ("right", "vague", "nothing", "FALSE")

RIGHT_SHARE = 0.95

# What was started is on its way by then.
SETTLES_S = 0.3


class MeasuringError(Exception):
    """kernel-delay failed; the message is its."""


class Result(Struct, frozen=True):
    """What became of a case: a judgement of each window, or why there is none.

    `refused` by this machine: it can't be staged here. `failed`: it was not measured.
    """

    name: str
    judgements: tuple[Judgement, ...] = ()
    refused: str | None = None
    failed: str | None = None

    def count(self, outcome: Outcome) -> int:
        """How many windows had that outcome."""
        return sum(each.outcome == outcome for each in self.judgements)


def names() -> list[str]:
    """All cases, as KIND/NAME."""
    return [
        f"{kind}/{path.stem}"
        for kind in KINDS
        for path in sorted((HERE / kind).glob("*.py"))
        if path.stem not in ("__init__", "chains")
    ] + [f"causes/{name}" for name in CHAINS]


def stage_of(name: str) -> Stage:
    """What stages a case."""
    if name.split("/")[1] in CHAINS:
        return CHAINS[name.split("/")[1]]
    module = import_module(f"tests.verdicts.{name.replace('/', '.')}")
    stage: Stage = module.stage
    return stage


def measure(pid: int, windows: int, window_s: float, options: tuple[str, ...] = ()) -> list[Sample]:
    """Capture a process's windows, one right after the other."""
    plan = ("--sample-time", window_s, "--sample-count", windows)
    arguments = ("--pid", pid, *plan, *options, "--json")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = commands.start(*arguments, stdout=out.fileno(), stderr=err.fileno())
        try:
            status = process.wait(LIFE_S)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        if status:
            raise MeasuringError(err.read().decode().strip())
        decode: Any = msgspec.json.Decoder(Sample).decode
        return [decode(line) for line in out.read().splitlines()]


def observe(stage: Stage, windows: int, window_s: float) -> tuple[list[Sample], Truth, oracle.Span]:
    """Stage a case and measure it, between two counts of the kernel's own."""
    with stage() as staged:
        time.sleep(SETTLES_S)
        # To count takes a while on a machine of many threads. What a task ran, or was throttled, is
        # of no longer time than the length: the rest is what it waited at most.
        began_ns, before = time.monotonic_ns(), oracle.count()
        throttled_ns = _throttled_ns(staged)
        samples = measure(staged.pid, windows, window_s, staged.options)
        throttled_ns = _throttled_ns(staged) - throttled_ns
        after, length_ns = oracle.count(), time.monotonic_ns() - began_ns
        span = oracle.Span(before, after, length_ns, throttled_ns)
    return samples, staged.truth, span


def _throttled_ns(staged: Staged) -> int:
    """How long each of its threads was throttled: the CPUs that it uses are, one and all."""
    if staged.quota is None:
        return 0
    used = min(len(os.listdir(f"/proc/{staged.pid}/task")), os.cpu_count() or 1)
    return oracle.throttled_ns(staged.quota) // used


def run_case(
    name: str, windows: int, window_s: float, also: frozenset[str] = frozenset()
) -> Result:
    """What the verdicts on one case are worth, where findings of `also` are true besides."""
    try:
        samples, truth, span = observe(stage_of(name), windows, window_s)
    except NotHereError as error:
        return Result(name, refused=str(error))
    except (MeasuringError, OSError, subprocess.SubprocessError) as error:
        return Result(name, failed=str(error))
    truth = replace(truth, also=truth.also | also)
    seen = witness(samples, span)
    return Result(name, tuple(judge(sample, truth, seen) for sample in samples))


@contextmanager
def building() -> Iterator[None]:
    """What a parallel build does, for as long as the block lasts."""
    source = HERE.parent / "workloads" / "contended.c"
    loop = 'while :; do cc -O2 -pthread -o /dev/null "$1"; done'
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            stack.enter_context(program("sh", "-c", loop, "sh", source, tells=False, lives_s=None))
        yield


def main() -> int:
    """Run the cases, print the table, and return the exit status."""
    args = _arguments()
    results = []
    with ExitStack() as stack:
        if args.under_build:
            stack.enter_context(building())
        for name in args.only or names():
            result = run_case(name, args.samples, args.window)
            results.append(result)
            print(_line(result), flush=True)
    if args.json:
        args.json.write_bytes(msgspec.json.encode(results))
    return _summary(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.verdicts.run", description=__doc__)
    parser.add_argument("--only", type=_cases, metavar="NAME,…", help="these cases alone")
    parser.add_argument("--samples", type=int, default=5, metavar="N", help="windows a case")
    parser.add_argument("--window", type=float, default=1.0, metavar="S", help="their length")
    parser.add_argument("--under-build", action="store_true", help="beside a parallel build")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results, with all texts")
    return parser.parse_args()


def _cases(text: str) -> list[str]:
    wanted = text.split(",")
    found = [name for name in names() if name in wanted or name.split("/")[1] in wanted]
    if len(found) < len(wanted):
        raise argparse.ArgumentTypeError(f"no such cases: {text}; there are {', '.join(names())}")
    return found


def _line(result: Result) -> str:
    if result.refused:
        return f"{result.name:28} can't be staged here: {result.refused}"
    if result.failed:
        return f"{result.name:28} failed: {result.failed}"
    counts = "  ".join(f"{result.count(outcome)} {outcome}" for outcome in OUTCOMES)
    worst = max(result.judgements, key=lambda each: OUTCOMES.index(each.outcome))
    texts = [f"\n    {worst.outcome}: {text}" for text in worst.texts[:3]]
    return f"{result.name:28} {counts}{''.join(texts)}"


def _summary(results: list[Result]) -> int:
    counts = Counter(each.outcome for result in results for each in result.judgements)
    total = sum(counts.values())
    staged = sum(not result.refused for result in results)
    failed = sum(bool(result.failed) for result in results)
    shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    print(f"{staged} of {len(results)} cases staged, {failed} failed; {total} verdicts: {shown}")
    return int(failed > 0 or counts["FALSE"] > 0 or counts["right"] < RIGHT_SHARE * max(total, 1))


if __name__ == "__main__":
    sys.exit(main())
