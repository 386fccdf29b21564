"""What a BPF object needs of the kernel."""

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from kernel_delay.capture import program_names
from kernel_delay.host.kernel_names import IRQ_TRACEPOINTS, POLL_FUNCTIONS
from tests.requirements.btf import Types
from tests.requirements.relocations import ENUM_BASED, EXISTENCE, read_relocations

# What the compiler of the objects calls the helpers: `(*bpf_loop)(…) = (void *) 181;`.
HELPERS = Path("/usr/include/bpf/bpf_helper_defs.h")
_HELPER = re.compile(r"\(\*(bpf_\w+)\)\(.*\) = \(void \*\) ?(\d+);")
_FLAG = re.compile(r"^\tBPF_F_(\w+)\s*= \(1U << (\d+)\),$", re.MULTILINE)

_SIZE = 8
_SHF_EXECINSTR = 4
_CALL, _JUMP_32, _ATOMICS, _LOAD_64 = 0x85, 0x06, (0xC3, 0xDB), 0x18
_PSEUDO_CALL, _PSEUDO_FUNC = 1, 4
# Of include/uapi/linux/bpf.h: what the immediate of an atomic instruction says.
_FETCH, _XCHG, _CMPXCHG = 0x01, 0xE1, 0xF1


class Requirement(NamedTuple):
    """What a kernel has or lacks: a kind, as of the table, and a name."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Use(NamedTuple):
    """How an object uses a requirement.

    checked: whether the object also asks if the kernel has it, or loads without it by itself.
    leaf: of a field, the kind of its type.
    """

    checked: bool = False
    leaf: str = ""


Uses = Mapping[Requirement, set[Use]]

# What user space attaches programs to by name, beside what their sections say.
_ATTACHED = {
    program_names.VECTOR_ENTRY: {
        Requirement("tracepoint", f"{name}_entry") for name in IRQ_TRACEPOINTS
    },
    program_names.VECTOR_EXIT: {
        Requirement("tracepoint", f"{name}_exit") for name in IRQ_TRACEPOINTS
    },
    # A call has a function in each ABI.
    program_names.POLL_FUNCTION: {
        Requirement("function", f"__*_sys_{name.partition('_sys_')[2]}") for name in POLL_FUNCTIONS
    },
}


def installed_objects() -> Iterator[Path]:
    """Go through the objects that are installed with the package."""
    for each in (files("kernel_delay") / "bpf").iterdir():
        if each.name.endswith(".bpf.o"):
            with as_file(each) as path:
                yield path


def read_all(objects: Iterable[Path]) -> Uses:
    """Read what objects need of the kernel, and how they use each."""
    found: dict[Requirement, set[Use]] = {}
    for path in objects:
        for requirement, uses in read_requirements(path).items():
            found.setdefault(requirement, set()).update(uses)
    return found


def read_requirements(path: Path) -> Uses:
    """Read what the object at `path` needs of the kernel, and how it uses each."""
    found: dict[Requirement, set[Use]] = {}
    types = Types.read(path)
    with path.open("rb") as file:
        elf = ELFFile(file)
        for requirement, use in (
            *_of_sections(elf),
            *_of_user_space(elf),
            *_of_instructions(elf),
            *_of_externs(elf, types),
            *_of_maps(types),
            *_of_relocations(elf, types),
        ):
            found.setdefault(requirement, set()).add(use)
    return found


def _of_sections(elf: ELFFile) -> Iterator[tuple[Requirement, Use]]:
    libbpf = ctypes.CDLL("libbpf.so.1")
    libbpf.libbpf_bpf_prog_type_str.restype = ctypes.c_char_p
    libbpf.libbpf_bpf_attach_type_str.restype = ctypes.c_char_p
    for section in elf.iter_sections("SHT_PROGBITS"):
        if not section["sh_flags"] & _SHF_EXECINSTR or section.name == ".text":
            continue
        program, attach = ctypes.c_int(), ctypes.c_int()
        name = section.name.removeprefix("?")
        error = libbpf.libbpf_prog_type_by_name(
            name.encode(), ctypes.byref(program), ctypes.byref(attach)
        )
        if error:
            raise ValueError(f"libbpf knows no section {name}")
        kind = libbpf.libbpf_bpf_prog_type_str(program).decode()
        yield Requirement("program type", kind), Use()
        before, _, hook = name.partition("/")
        if kind == "tracing" or before.endswith(".multi"):
            attached = libbpf.libbpf_bpf_attach_type_str(attach).decode()
            yield Requirement("attach type", attached), Use()
        if before.endswith(".s"):
            yield Requirement("sleepable program", f"{before.removesuffix('.s')}/{hook}"), Use()
        if hook:
            yield Requirement(_HOOKS[before.removesuffix(".s")], hook.rpartition("/")[2]), Use()


# What the second part of a section's name is.
_HOOKS = {
    "tp_btf": "tracepoint",
    "raw_tp": "tracepoint",
    "tp": "tracepoint",
    "fentry": "function",
    "fexit": "function",
    "kprobe": "function",
    "kretprobe": "function",
    "iter": "iterator",
}


def _of_user_space(elf: ELFFile) -> Iterator[tuple[Requirement, Use]]:
    for symbol in _symbols(elf).iter_symbols():
        if symbol["st_info"]["type"] != "STT_FUNC":
            continue
        section = elf.get_section(symbol["st_shndx"]).name.removeprefix("?")
        if section in ("raw_tp", "kprobe.multi") and symbol.name not in _ATTACHED:
            raise ValueError(f"what {symbol.name} is attached to is not known")
        for requirement in _ATTACHED.get(symbol.name, ()):
            yield requirement, Use()


def _symbols(elf: ELFFile) -> SymbolTableSection:
    symbols = elf.get_section_by_name(".symtab")
    assert isinstance(symbols, SymbolTableSection)
    return symbols


def _of_instructions(elf: ELFFile) -> Iterator[tuple[Requirement, Use]]:
    helpers = {int(number): name for name, number in _HELPER.findall(HELPERS.read_text())}
    for section in elf.iter_sections("SHT_PROGBITS"):
        if not section["sh_flags"] & _SHF_EXECINSTR:
            continue
        code = section.data()
        at = 0
        while at < len(code):
            opcode, source = code[at], code[at + 1] >> 4
            immediate = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
            if opcode == _CALL and source == 0:
                yield Requirement("helper", helpers[immediate]), Use()
            elif opcode == _LOAD_64 and source == _PSEUDO_FUNC:
                yield Requirement("instruction", "callback"), Use()
            elif opcode in _ATOMICS:
                yield Requirement("instruction", _atomic(immediate)), Use()
            elif opcode & 0x07 == _JUMP_32:
                yield Requirement("instruction", "32-bit jump"), Use()
            at += 2 * _SIZE if opcode == _LOAD_64 else _SIZE


def _atomic(immediate: int) -> str:
    if immediate == _CMPXCHG:
        return "atomic cmpxchg"
    if immediate == _XCHG:
        return "atomic xchg"
    operation = {0x00: "add", 0x40: "or", 0x50: "and", 0xA0: "xor"}[immediate & ~_FETCH]
    return f"atomic {'fetch_' if immediate & _FETCH else ''}{operation}"


def _of_externs(elf: ELFFile, types: Types) -> Iterator[tuple[Requirement, Use]]:
    symbols = _symbols(elf).iter_symbols()
    weak = {each.name for each in symbols if each["st_info"]["bind"] == "STB_WEAK"}
    for section in types:
        if section.kind != "DATASEC" or section.name not in (".ksyms", ".kconfig"):
            continue
        for member in section.vars:
            extern = types[member.type_id]
            kind = "kfunc" if extern.kind == "FUNC" else "symbol"
            kind = "kconfig" if section.name == ".kconfig" else kind
            yield Requirement(kind, extern.name), Use(checked=extern.name in weak)


def _of_maps(types: Types) -> Iterator[tuple[Requirement, Use]]:
    libbpf = ctypes.CDLL("libbpf.so.1")
    libbpf.libbpf_bpf_map_type_str.restype = ctypes.c_char_p
    flags = dict(_FLAG.findall(Path("/usr/include/linux/bpf.h").read_text()))
    for section in types:
        if section.kind != "DATASEC" or section.name != ".maps":
            continue
        for variable in section.vars:
            definition = types.resolved(types[variable.type_id].type_id)
            # __uint(type, N) declares `int (*type)[N]`.
            numbers = {
                member.name: types[types[member.type_id].type_id].nr_elems
                for member in definition.members
            }
            name = libbpf.libbpf_bpf_map_type_str(numbers["type"]).decode()
            yield Requirement("map type", name), Use()
            for flag, bit in flags.items():
                if numbers.get("map_flags", 0) >> int(bit) & 1:
                    yield Requirement("map flag", f"BPF_F_{flag}"), Use()


def _of_relocations(elf: ELFFile, types: Types) -> Iterator[tuple[Requirement, Use]]:
    btf, btf_ext = (elf.get_section_by_name(name) for name in (".BTF", ".BTF.ext"))
    if btf is None or btf_ext is None:
        raise ValueError("compiled without -g")
    for kind, root, path, leaf in read_relocations(btf.data(), btf_ext.data(), types):
        use = Use(checked=kind in EXISTENCE, leaf=leaf)
        if kind in ENUM_BASED:
            yield Requirement("enumerator", f"{root}.{path[0]}"), use
        elif path:
            yield Requirement("field", ".".join((root, *path))), use
        else:
            yield Requirement("type", root), use
