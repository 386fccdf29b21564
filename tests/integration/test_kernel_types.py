"""The types that our programs read are the kernel's own: its modules are not searched for them."""

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernel_delay.host.preflight import BTF
from tests.requirements.btf import Types
from tests.requirements.objects import installed_objects
from tests.requirements.relocations import read_relocations

# Theirs are those of the module openvswitch.
OF_A_MODULE = {"datapath_ops.bpf.o", "upcall.bpf.o", "upcall_statistics.bpf.o"}


def types_of(path: Path) -> set[str]:
    """The types of the kernel's whose fields or values an object asks for."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        sections = {section.name: section.data() for section in elf.iter_sections()}
    btf, btf_ext = sections[".BTF"], sections[".BTF.ext"]
    return {found.root for found in read_relocations(btf, btf_ext, Types.read(path))}


@pytest.mark.skipif(not BTF.exists(), reason="this kernel has no BTF")
def test_the_kernel_itself_has_each_type() -> None:
    names = BTF.read_bytes()
    lacking = {
        f"{path.name}: {root}"
        for path in installed_objects()
        if path.name not in OF_A_MODULE
        for root in types_of(path)
        if b"\0%b\0" % root.encode() not in names
    }
    # libbpf would read the types of all modules, which takes CAP_SYS_ADMIN too.
    assert not lacking
