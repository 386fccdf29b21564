"""found.csv: which kernel has which requirement; kernels.toml: where we know that from.

python -m tests.requirements.facts NAME FILE [MODULE...]

writes the column NAME of found.csv anew. FILE is the kernel's BTF (a copy of its
/sys/kernel/btf/vmlinux, or an ELF file with BTF) or its vmlinux.h, MODULE a file *.ko of the same
kernel.
"""

import argparse
import csv
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert

from tests.requirements import table
from tests.requirements.btf import Types
from tests.requirements.kernel import has, read_kernel
from tests.requirements.objects import Requirement, Uses, installed_objects, read_all

_FOUND = Path(__file__).with_name("found.csv")
_WORDS = {True: "yes", False: "no", None: ""}
_VALUES = {word: value for value, word in _WORDS.items()}


class Kernel(Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel whose types were looked at.

    name: the column in found.csv.
    machine: its architecture, as `uname -m` has it.
    source: the file with its types: a repository, a commit and a path, or a package.
    evidence: how we know which kernel the file is of.
    """

    name: str
    machine: str
    source: str
    evidence: str


Found = Mapping[Requirement, bool | None]


def read_kernels() -> tuple[Kernel, ...]:
    """Read which kernels were looked at."""
    text = Path(__file__).with_name("kernels.toml").read_text()
    return convert(tomllib.loads(text)["kernel"], tuple[Kernel, ...])


def read_found() -> Mapping[str, Found]:
    """Read which kernel has what; what was not looked for is not known."""
    if not _FOUND.exists():
        return {}
    with _FOUND.open(newline="") as file:
        _, _, *names = header = next(reader := csv.reader(file))
        rows = [dict(zip(header, row, strict=True)) for row in reader]
    return {
        name: {Requirement(row["kind"], row["name"]): _VALUES[row[name]] for row in rows}
        for name in names
    }


def write_column(name: str, column: Found) -> None:
    """Write what one kernel has; keep of the others what is still needed."""
    found = {**read_found(), name: column}
    names = [kernel.name for kernel in read_kernels() if kernel.name in found]
    with _FOUND.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kind", "name", *names])
        for requirement in sorted(column):
            writer.writerow(
                [*requirement, *(_WORDS[found[each].get(requirement)] for each in names)]
            )


def find_all(
    kernel: Sequence[Types], machine: str, rows: Mapping[Requirement, table.Row], uses: Uses
) -> Found:
    """Return which requirements a kernel meets, None for those of which that is not known.

    Args:
        kernel: its types, and those of each module that was looked at.
        machine: its architecture.
        rows: the table.
        uses: how the objects use what is in it.
    """
    found: dict[Requirement, bool | None] = {}
    for requirement, row in rows.items():
        leaves = {use.leaf for use in uses.get(requirement, ()) if use.leaf}
        known = [has(types, requirement, leaves) for types in kernel]
        if row.machine not in ("", machine):
            found[requirement] = None
        elif any(known):
            found[requirement] = True
        else:
            # Another module may have it.
            found[requirement] = None if row.module else known[0]
    return found


def main() -> None:
    """Write a column of found.csv."""
    kernels = {kernel.name: kernel for kernel in read_kernels()}
    parser = argparse.ArgumentParser(prog="python -m tests.requirements.facts")
    parser.add_argument("name", choices=kernels, help="which of kernels.toml")
    parser.add_argument("file", type=Path, help="the kernel's BTF or its vmlinux.h")
    parser.add_argument("modules", type=Path, nargs="*", help="a file *.ko of the same kernel")
    given = parser.parse_args()
    rows = table.read_rows()
    types = [read_kernel(given.file, rows)]
    types += [Types.read(module, given.file) for module in given.modules]
    uses = read_all(installed_objects())
    write_column(given.name, find_all(types, kernels[given.name].machine, rows, uses))


if __name__ == "__main__":
    main()
