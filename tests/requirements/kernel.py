"""Whether a kernel has what the objects need: by its BTF, or by a vmlinux.h made of that."""

import re
import subprocess
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.requirements.btf import COMPOSITES, ENUMS, Types
from tests.requirements.objects import Requirement
from tests.requirements.relocations import find_field

# Which enumerator of include/uapi/linux/bpf.h the kernel has with a feature.
_UAPI = {
    "helper": ("bpf_func_id", "BPF_FUNC_{}"),
    "map type": ("bpf_map_type", "BPF_MAP_TYPE_{}"),
    "program type": ("bpf_prog_type", "BPF_PROG_TYPE_{}"),
    "attach type": ("bpf_attach_type", "BPF_{}"),
}


def read_kernel(path: Path, requirements: Iterable[Requirement]) -> Types:
    """Read a kernel's types; of a header (*.h), those that the requirements are about.

    Raises CalledProcessError if bpftool or clang can't read the file.
    """
    if path.suffix != ".h":
        return Types.read(path)
    wanted = {name for each in requirements for name in _types_of(each)}
    declared = _declarations(path.read_text(), wanted)
    with TemporaryDirectory() as folder:
        compiled = Path(folder, "kernel.o")
        source = f'#include "{path.resolve()}"\n' + "".join(
            f"{declaration} kernel_type_{number};\n" for number, declaration in enumerate(declared)
        )
        command = ["clang", "-target", "bpf", "-g", "-w", "-x", "c", "-c", "-", "-o", str(compiled)]
        subprocess.run(command, check=True, input=source.encode())
        return Types.read(compiled)


def _types_of(requirement: Requirement) -> Iterable[str]:
    """Return the names of the kernel's types that show whether a requirement is met."""
    if requirement.kind in _UAPI:
        return (_UAPI[requirement.kind][0],)
    if requirement.kind in ("field", "type", "enumerator"):
        return (requirement.name.partition(".")[0],)
    if requirement.kind == "tracepoint":
        return (f"btf_trace_{requirement.name}",)
    if requirement.kind == "iterator":
        return (f"bpf_iter__{requirement.name}",)
    return ()


def _declarations(header: str, names: set[str]) -> list[str]:
    kinds = re.findall(r"^(struct|union|enum) (\w+) \{", header, re.MULTILINE)
    typedefs = re.findall(r"^typedef [^;{]*?\b(btf_trace_\w+)\)\(", header, re.MULTILINE)
    declared = [f"{kind} {name}" for kind, name in kinds if name in names]
    return sorted({*declared, *(name for name in typedefs if name in names)})


def has(types: Types, requirement: Requirement, leaves: Iterable[str] = ()) -> bool | None:
    """Return whether the types show that a kernel meets a requirement, None if they can't.

    Args:
        types: the kernel's.
        requirement: what is needed.
        leaves: of a field, the kinds that its type may be of; none if any will do.
    """
    kind, name = requirement
    if kind in _UAPI:
        enum, form = _UAPI[kind]
        wanted = name.removeprefix("bpf_") if kind == "helper" else name.upper()
        return _has_enumerator(types, enum, form.format(wanted))
    if kind == "enumerator":
        return _has_enumerator(types, *name.split("."))
    if kind == "type":
        return bool(types.named.get(name))
    if kind == "field":
        root, *path = name.split(".")
        found = (
            find_field(each, tuple(path), types)
            for each in types.named.get(root, ())
            if each.kind in COMPOSITES
        )
        return any(each is not None and _fits(each.kind, leaves) for each in found)
    if kind == "tracepoint":
        return f"btf_trace_{name}" in types.named
    if kind == "iterator":
        return f"bpf_iter__{name}" in types.named
    if kind in ("function", "kfunc") and "FUNC" in types.kinds:
        return any(each.kind == "FUNC" and fnmatchcase(each.name, name) for each in types)
    return None


def _has_enumerator(types: Types, enum: str, name: str) -> bool:
    return any(
        value.name == name
        for each in types.named.get(enum, ())
        if each.kind in ENUMS
        for value in each.values
    )


def _fits(kind: str, leaves: Iterable[str]) -> bool:
    """Return whether libbpf takes a field of that kind of type for one of ours."""
    kinds = set(leaves)
    return not kinds or kind in kinds or (kind in COMPOSITES and bool(kinds & COMPOSITES))
