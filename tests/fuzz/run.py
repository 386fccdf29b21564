"""Fuzz each parser of what a measured process can write, one after the other.

`make fuzz` has FUZZ_SECONDS for each, and FUZZ_TARGETS. The corpora grow in
build/fuzz; tests/fuzz/seeds is what they begin with. What a fuzzer finds is
left in build/fuzz/findings, to become a seed, and with that a test.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import c_targets
from tests.fuzz.parsers import PARSERS

HERE = Path(__file__).parent
SEEDS = HERE / "seeds"
TREE = HERE.parents[1]
BUILD = TREE / "build" / "fuzz"

# An input that takes longer, or makes its parser hold more, is a finding.
LIMITS = ("-timeout=20", "-rss_limit_mb=2048", "-max_len=65536")

DONE = re.compile(r"Done (\d+) runs|stat::number_of_executed_units: (\d+)")


def main() -> int:
    """Return 0 where nothing was found."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("targets", nargs="*", help="of them alone")
    arguments.add_argument("--seconds", type=int, default=600, help="for each")
    args = arguments.parse_args()
    targets = args.targets or [*PARSERS, *c_targets.TARGETS]
    found = [name for name in targets if not fuzz(name, args.seconds)]
    if found:
        print(f"fuzz: findings of {', '.join(found)} are in {BUILD / 'findings'}")
    return 1 if found else 0


def fuzz(name: str, seconds: int) -> bool:
    """Fuzz one target; False where something was found."""
    corpus, findings = BUILD / "corpus" / name, BUILD / "findings" / name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    log = BUILD / f"{name}.log"
    command = [
        *command_of(name),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={findings}/",
        "-print_final_stats=1",
        *LIMITS,
        str(corpus),
        str(SEEDS / name),
    ]
    with log.open("wb") as output:
        status = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=TREE, env=environment()
        ).returncode
    text = log.read_text(errors="replace")
    counts = [int(one or other) for one, other in DONE.findall(text)]
    new = sorted(set(findings.iterdir()) - before)
    sound = status == 0 and not new
    result = "nothing found" if sound else f"FOUND {', '.join(map(str, new)) or log}"
    print(f"fuzz: {name}: {max(counts, default=0)} executions, {result}", flush=True)
    return sound


def command_of(name: str) -> Sequence[str]:
    """Return how the target is run, as libFuzzer is."""
    if name in PARSERS:
        return (sys.executable, "-m", "tests.fuzz.python_target", name)
    return (str(c_targets.build(name, BUILD)),)


def environment() -> dict[str, str]:
    """For both: the tree's own modules, and no waiting for what libdw keeps for good."""
    return {**os.environ, "PYTHONPATH": str(TREE)}


if __name__ == "__main__":
    sys.exit(main())
