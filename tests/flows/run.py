"""python -m tests.flows.run: 10,000 flows of the kernel's datapath, in guests.

On each kernel of tests/kernels/kernels.toml, with Open vSwitch of Debian 13 and of Debian unstable,
flows are made by real traffic and then go or change, by one cause after the other, while
`revalidator`, `flows` and `datapath-ops` record (tests.flows.traffic). What these have must be what
Open vSwitch, the kernel and ovs-dpctl said before and after (tests.flows.judge).
"""

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.debian import DebianError
from tests.flows import judge
from tests.flows.traffic import FLOWS
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import Kernel, MissingImageError, fetch, own_kernels
from tests.kernels.run import RESULTS, open_vswitches

SUITES = ("trixie", "unstable")


def main() -> int:
    """Run the guests one after the other, and print a table of each; the exit status."""
    options = _options()
    console = Console(width=120)
    wrong = 0
    for kernel in own_kernels():
        for suite in options.open_vswitch or SUITES:
            if options.kernel is None or kernel.name in options.kernel:
                try:
                    run = judge.judge(_guest(kernel, suite, options))
                except MissingImageError as error:
                    console.print(f"{kernel.name}, {suite}: NOT RUN: {error}", markup=False)
                except (DebianError, GuestError, subprocess.CalledProcessError) as error:
                    console.print(f"{kernel.name}, {suite}: {error}", markup=False)
                    wrong += 1
                else:
                    wrong += _reported(console, run)
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.flows.run")
    names = [kernel.name for kernel in own_kernels()]
    parser.add_argument("--kernel", action="append", choices=names, help="only this one")
    parser.add_argument("--open-vswitch", action="append", choices=SUITES, help="only this suite's")
    parser.add_argument("--cause", action="append", help="only this one")
    parser.add_argument("--flows", type=int, default=FLOWS)
    parser.add_argument(
        "--limit", type=float, default=1800, help="how long a guest may be silent, in seconds"
    )
    parser.add_argument("--again", action="store_true", help="judge what the last guests recorded")
    return parser.parse_args()


def _guest(kernel: Kernel, suite: str, options: argparse.Namespace) -> Path:
    """Have a guest record; the folder with all of it."""
    image = fetch(kernel)
    folder = RESULTS / f"flows-{image.release}-{suite}"
    if not options.again:
        guest = Guest(image, kvm_boots(image, RESULTS / "kvm"), folder)
        program = (sys.executable, "-m", "tests.flows.traffic")
        variables = open_vswitches(suite)
        causes = [f"--cause={name}" for name in options.cause or ()]
        arguments = (f"--flows={options.flows}", *causes, str(folder))
        command = ["env", *variables, *program, *arguments]
        if guest.run(command, options.limit) != 0:
            raise GuestError(f"failed: {'; '.join(guest.last_words())}")
    return folder


def _reported(console: Console, run: judge.Run) -> int:
    """Print it; how much was wrong."""
    columns = ("cause", "made", "then", "reason", "rounds", "operations", "all the same")
    table = Table(*columns, title=f"{run.notes.open_vswitch}, Linux {run.notes.release}")
    for each in run.periods:
        period = each.period
        table.add_row(
            period.name,
            f"{each.made:,}",
            f"{each.changed:,} {period.change}",
            period.reason or "",
            str(each.rounds),
            f"{each.operations:,}",
            "NO" if each.wrong else "yes",
        )
    console.print(table)
    refused = ", ".join(f"{count:,} {' '.join(name)}" for name, count in run.answers.items())
    console.print(f"{run.messages:,} messages of datapath-ops; refused at the end: {refused}")
    problems = [f"{each.period.name}: {text}" for each in run.periods for text in each.wrong]
    for problem in (*problems, *run.wrong):
        console.print(f"WRONG: {problem}", markup=False, highlight=False, soft_wrap=True)
    return len(problems) + len(run.wrong)


if __name__ == "__main__":
    sys.exit(main())
