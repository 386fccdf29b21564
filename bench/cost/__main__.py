"""`make cost`: measure, print, and compare with the committed table, or write it."""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench.cost.history import append, entry_of
from bench.cost.measured import is_editable, measured
from bench.cost.table import WRITE, read_table, remarks, rises, write_table
from kernel_delay.errors import KernelDelayError


def main() -> int:
    """Read the command line; return 1 where a figure rose."""
    parser = argparse.ArgumentParser(prog="cost", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table to be committed")
    parser.add_argument(
        "--programs", action="store_true", help="the verifier's figures alone, as in a guest"
    )
    args = parser.parse_args()
    if is_editable() and not args.programs:
        print("cost: an editable build: starts are not measured; `make build`", file=sys.stderr)
    try:
        # Not below the current folder: that may be on 9p.
        with tempfile.TemporaryDirectory(prefix="kernel-delay-cost-") as folder:
            table = measured(Path(folder), programs_only=args.programs)
    except KernelDelayError as error:
        print(f"cost: {error}", file=sys.stderr)
        return error.exit_code
    for group, figures in table.items():
        print(f"\n{group}")
        for name, value in figures.items():
            print(f"{value:>14,}  {name}")
    if args.write:
        write_table(table)
        append(entry_of(table))
        return os.EX_OK
    committed = read_table()
    rose = list(rises(table, committed))
    for line in (*remarks(table, committed), *rose):
        print(f"cost: {line}", file=sys.stderr)
    if rose:
        print(f"cost: if that is meant, `{WRITE}`, and say why in the commit", file=sys.stderr)
    return 1 if rose else os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
