"""`make bench`: measure, print, and write results.json, performance.md and README's figures."""

import argparse
import datetime
import os
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

from bench import machine
from bench.figures import BesideWork, Measured, Results
from bench.measures.measure import Measure, Setting
from bench.measures.verifier import HERE, guests
from bench.page import PAGE, render
from bench.plan import MEASURES
from bench.programs_page import PROGRAMS_PAGE, render_programs
from bench.readme import README, with_figures
from bench.results import read_results, with_earlier, write_results
from kernel_delay.errors import KernelDelayError
from tests.debian import DebianError


def main() -> int:
    """Read the command line; return the exit status."""
    args = _arguments()
    if os.geteuid() != 0:
        print("bench: measuring needs root: run it with sudo", file=sys.stderr)
        return os.EX_NOPERM
    # So that `with` blocks end what they began.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    machine.mount_tracing()
    # Before anything is written, which would make it "-dirty".
    version = machine.version()
    wanted = [measure for measure in MEASURES if not args.only or measure.name in args.only]
    try:
        for measure in wanted:
            taken = _take(measure, version, args)
            if not (args.print_only or args.peer or args.beside):
                # After each one, so that nothing measured is lost where a later one fails.
                _write(_merged(measure.name, taken, args))
    except (KernelDelayError, DebianError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return os.EX_OK


def _write(results: Results) -> None:
    write_results(results)
    PAGE.write_text(render(results))
    PROGRAMS_PAGE.write_text(render_programs(results))
    README.write_text(with_figures(README.read_text(), results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="what measuring costs")
    names = [measure.name for measure in MEASURES]
    parser.add_argument(
        "--only", action="append", choices=names, help="this measure; may be given again"
    )
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--print-only", action="store_true", help="don't write the results")
    parser.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="NAME",
        help="of packets: this one alone, as 'kernel-delay watch'; may be given again, and writes"
        " no results",
    )
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        type=Path,
        metavar="TREE/.venv/bin/kernel-delay",
        help="of syscall: another build too, in turn; may be given again, and writes no results",
    )
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        choices=[HERE, *(kernel.name for kernel in guests())],
        help="of verifier: this one alone; may be given again, and keeps the figures of others",
    )
    parser.add_argument(
        "--beside-work",
        action="store_true",
        help="of verifier, with --kernel: the machine has other work; keep all times of before",
    )
    return parser.parse_args()


def _take(measure: Measure, version: str, args: argparse.Namespace) -> Measured:
    print(f"bench: {measure.title}", file=sys.stderr, flush=True)
    # Not below the current folder: that may be on 9p.
    with tempfile.TemporaryDirectory(prefix="kernel-delay-bench-") as folder:
        setting = Setting(
            args.rounds, Path(folder), tuple(args.peer), tuple(args.beside), tuple(args.kernel)
        )
        figures, absent = measure.take(setting)
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    measured = Measured(when, version, tuple(figures), tuple(absent))
    if args.beside_work:
        cpu = machine.describe().cpu
        peers = dict.fromkeys(figure.peer for figure in figures)
        loaded = tuple(BesideWork(peer, cpu) for peer in peers)
        measured = msgspec.structs.replace(measured, beside_work=loaded)
    lines = [f"\n## {measure.title}\n", *measure.tables(measured), "", *measure.remarks(measured)]
    print("\n".join(lines), flush=True)
    return measured


def _merged(name: str, taken: Measured, args: argparse.Namespace) -> Results:
    """Keep the other measures, if they were made on this machine, and the rest of a part's.

    What is counted depends on the kernel alone: times that were measured beside other work do not
    take the place of another machine's.
    """
    here = machine.describe()
    before = read_results()
    if before and args.beside_work and before.machine.kernel == here.kernel:
        here = before.machine
    kept = before.measures if before and before.machine == here else {}
    if args.kernel and name in kept:
        taken = with_earlier(taken, kept[name])
    return Results(here, {**kept, name: taken})


if __name__ == "__main__":
    sys.exit(main())
