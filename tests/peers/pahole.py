"""What the scripts ask pahole for, from gdb.

They take definitions of Open vSwitch's structs from it, and compile them. No pahole that Debian has
can print these from the debug information of a recent compiler: up to 1.30 it gives up at C11's
atomic types.
"""

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.needs import needed

# What the scripts read of each, the pointers among it apart.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "udpif": ("max_n_flows", "avg_n_flows", "flow_limit", "dump_duration"),
    "udpif_key": ("ufid",),
    "dpif_flow_put": ("key", "key_len", "ufid"),
}
POINTERS = {("dpif_flow_put", "key"), ("dpif_flow_put", "ufid")}
_TYPES: Mapping[int, str] = {4: "u32", 8: "u64", 16: "ovs_u128"}


def pahole_substitute(program: Path, folder: Path) -> Path:
    """A program that prints the definitions, whatever it is asked for."""
    definitions = folder / "definitions.h"
    structs = [_definition(program, name) for name in FIELDS]
    definitions.write_text("\n".join(["typedef struct { u32 words[4]; } ovs_u128;", *structs]))
    starter = folder / "pahole"
    starter.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(definitions))}\n")
    starter.chmod(0o755)
    return starter


def _definition(program: Path, name: str) -> str:
    """The struct as far as its last field that is read, with those alone."""
    places = {field: _place(program, name, field) for field in FIELDS[name]}
    end, lines = 0, []
    for field, (offset, size) in sorted(places.items(), key=lambda item: item[1]):
        lines.append(f"char before_{field}[{offset - end}];")
        kind = "const void *" if (name, field) in POINTERS else _TYPES[size]
        lines.append(f"{kind} {field};")
        end = offset + size
    return f"struct {name} {{ {' '.join(lines)} }} __attribute__((packed));"


def _place(program: Path, struct: str, field: str) -> tuple[int, int]:
    """The field's offset and size."""
    member = f"((struct {struct} *)0)->{field}"
    printed = f'printf "%lu %lu\\n", (unsigned long)&{member}, (unsigned long)sizeof({member})'
    command = [needed("gdb"), "-batch", "-nx", "-ex", printed, str(program)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    offset, size = map(int, done.stdout.split())
    return offset, size
