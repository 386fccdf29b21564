"""docs/reference/kernel-requirements.md: requirements.toml and found.csv, for readers.

python -m tests.requirements.page > docs/reference/kernel-requirements.md
"""

from collections.abc import Iterator
from itertools import groupby

from tests.requirements import facts, table
from tests.requirements.objects import Requirement
from tests.requirements.table import Row

COMMIT = "https://git.kernel.org/torvalds/c/"

# Where git's history begins, "Linux-2.6.12-rc2".
BEGINNING = {"2.6.12": "1da177e4c3f4"}

HEAD = f"""\
# What the kernel must have

kernel-delay needs Linux {table.OLDEST} or newer. These tables list all that its BPF programs need.
A test reads the list from the compiled programs and from the names that Python attaches them to. It
fails if a row is missing here, or if nothing needs a row. Do not edit this page:
`tests/requirements/requirements.toml` has its rows.

- *since*: the first version of Linux that has it, and the commit if that is known. Linux 2.6.12
  stands for all before, too: git's history begins there. On arm64 some came later. Without a
  version, libbpf provides it.
- *without it*: what is missing on a kernel that lacks it. **Mandatory** is only what {table.OLDEST}
  has.
- Distributions add features to old kernels. The tool looks for features, not for versions.
"""

HEADINGS = {
    "program type": "Program types",
    "attach type": "Attach types",
    "sleepable program": "Programs that may sleep",
    "iterator": "Iterators",
    "tracepoint": "Tracepoints",
    "function": "Functions that programs attach to",
    "helper": "Helpers",
    "kfunc": "Kfuncs",
    "symbol": "Symbols",
    "kconfig": "Values that libbpf provides",
    "map type": "Map types",
    "map flag": "Map flags",
    "instruction": "Instructions",
    "enumerator": "Enumerators",
    "type": "Types",
    "field": "Fields",
}

KERNELS = """\
## Kernels that were looked at

The types of these kernels were compared with the tables. `/sys/kernel/btf/vmlinux` shows types,
functions and kfuncs. A `vmlinux.h` shows types alone, and none of those in modules. Nothing here
was run: [Compatibility](compatibility.md) says what was. As far as their types show, no kernel
lacks a mandatory part. The files are not part of this project.
"""


def page() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_requirements(), KERNELS, *_kernels()]) + "\n"


def _requirements() -> Iterator[str]:
    for kind, rows in groupby(table.read_rows().items(), lambda item: item[0].kind):
        yield f"## {HEADINGS[kind]}\n"
        yield f"| {kind} | since | without it |"
        yield "|---|---|---|"
        for requirement, row in sorted(rows):
            yield f"| `{requirement.name}` | {_versions(row)} | {_without(row)} |"
        yield ""


def _versions(row: Row) -> str:
    commit = row.commit or BEGINNING.get(row.since)
    since = f"[{row.since}]({COMMIT}{commit})" if commit else row.since
    until = f"up to {row.until}" if row.until else ""
    arm64 = f"arm64: {row.arm64}" if row.arm64 else ""
    return ", ".join(filter(None, (since, until, arm64)))


def _without(row: Row) -> str:
    machine = f"({'x86-64' if row.machine == 'x86_64' else 'arm64'} only) " if row.machine else ""
    return machine + (row.without or "**mandatory**")


def _kernels() -> Iterator[str]:
    found = facts.read_found()
    for kernel in facts.read_kernels():
        column = found[kernel.name]
        has = sum(1 for known in column.values() if known)
        unknown = sum(1 for known in column.values() if known is None)
        lacks = [requirement for requirement, known in column.items() if known is False]
        yield f"### {kernel.name}\n"
        yield f"- types: {kernel.source}"
        yield f"- how its kernel is known: {kernel.evidence}"
        yield f"- {has} found, {unknown} not shown, {len(lacks)} missing, all optional"
        for kind, missing in groupby(lacks, lambda requirement: requirement.kind):
            yield f"- missing {HEADINGS[kind].lower()}: {', '.join(map(_short, missing))}"
        yield ""


def _short(requirement: Requirement) -> str:
    return f"`{requirement.name}`" if requirement.kind != "helper" else f"`{requirement.name}()`"


if __name__ == "__main__":
    print(page(), end="")
