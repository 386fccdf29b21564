"""python -m tests.faults.run: each command, with a system call that fails, or with too little.

strace(1) makes the n-th call of a kind fail, without the kernel seeing it. Or memory, descriptors,
disk, /proc or tracefs is missing. The command must then say in one line what is wrong, with the
right code of sysexits.h, or go on and print what it prints without. It leaves no files behind.
Exits with 1 where one does neither. A sample is tried, the same for a seed; --whole tries all.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.failing import ERRORS, MISSING, Ended, Fault, fails, faults, usual
from tests.faults.judged import complaint, last_lines
from tests.faults.tried import Command, commands


def main() -> int:
    """Run them, print each complaint; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--each", type=int, default=4, metavar="N", help="trials of a kind")
    parser.add_argument("--whole", action="store_true", help="each call, with each error")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands with that in them")
    parser.add_argument(
        "--kind", action="append", choices=(*ERRORS, *MISSING), help="these kinds of faults alone"
    )
    parser.add_argument("--verbose", action="store_true", help="print each trial")
    options = parser.parse_args()
    each = None if options.whole else options.each
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, commands(Path(folder), options.only) as found:
        for command in found:
            counts: Counter[str] = Counter()
            before = usual(command)
            if before.done.returncode != 0 or not command.check(before.done.stdout):
                print(f"{command.name}: fails where nothing does; {last_lines(before.done)}")
                total["complaints"] += 1
                continue
            for fault in faults(command, each, options.seed):
                if options.kind is None or fault.kind in options.kind:
                    counts[try_it(command, fault, before, options.verbose)] += 1
            print(f"{command.name}: {dict(counts)}", flush=True)
            total += counts
    print(f"{total.total()} trials: {dict(total)}")
    return 1 if total["complaints"] or not total else 0


def try_it(command: Command, fault: Fault, before: Ended, is_verbose: bool) -> str:
    """Run a trial and print what is wrong; return how it ended."""
    name = f"{command.name}: {fault}"
    try:
        ended = fails(command, fault)
    except subprocess.TimeoutExpired:
        print(f"{name}: hangs", flush=True)
        return "complaints"
    done = ended.done
    if not ended.began:
        return "before the first line of kernel-delay"
    if not ended.failed:
        return "not reached"
    wrong = complaint(command, fault, ended, before)
    if wrong is not None or is_verbose:
        print(f"{name}: {wrong}; status {done.returncode}; {last_lines(done)}", flush=True)
    if wrong is not None:
        return "complaints"
    return "went on" if done.returncode == 0 else "refused"


if __name__ == "__main__":
    sys.exit(main())
