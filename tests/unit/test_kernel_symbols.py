"""Kernel symbols, from a kallsyms written here and from this machine's."""

from pathlib import Path

import pytest

from kernel_delay.symbols import KernelSymbols, Stack

SYMBOLS = """\
ffffffff81000000 T _stext
ffffffff81000100 t do_syscall_64
ffffffff81000180 D not_code
ffffffff81000200 T futex_wait
ffffffff81000200 t alias_of_futex_wait
ffffffffc0001000 t ovs_dp_upcall\t[openvswitch]
ffffffffc0003000 t bpf_prog_6deef7357e7b4530\t[bpf]
"""


def symbols(directory: Path, text: str) -> KernelSymbols:
    path = directory / "kallsyms"
    path.write_text(text)
    return KernelSymbols(path)


def test_names_offsets_and_modules(tmp_path: Path) -> None:
    kernel = symbols(tmp_path, SYMBOLS)
    addresses = (0xFFFFFFFFC0001010, 0xFFFFFFFF81000200, 0xFFFFFFFF81000190)
    frames = kernel.frames(Stack.of_return_addresses(addresses))
    assert [(frame.name, frame.offset, frame.object) for frame in frames] == [
        ("ovs_dp_upcall", 0x10, "openvswitch"),
        # The call before a return address is what counts: its function ends there.
        ("do_syscall_64", 0x100, "kernel"),
        ("do_syscall_64", 0x90, "kernel"),
    ]
    assert kernel.reason is None
    assert kernel.symbolise(0xFFFFFFFF81000200).name == "futex_wait"
    assert kernel.symbolise(0xFFFFFFFF80000000).name is None


def test_object_has_its_name_at_just_its_address(tmp_path: Path) -> None:
    kernel = symbols(tmp_path, f"{SYMBOLS}ffffffffc0004000 d ovs_mutex\t[openvswitch]\n")
    assert kernel.name_of(0xFFFFFFFFC0004000) == "ovs_mutex"
    assert kernel.name_of(0xFFFFFFFF81000180) == "not_code"
    assert kernel.name_of(0xFFFFFFFFC0004008) is None
    assert symbols(tmp_path, "0000000000000000 d rtnl_mutex\n").name_of(0) is None


def test_hidden_addresses_say_why(tmp_path: Path) -> None:
    kernel = symbols(tmp_path, "0000000000000000 T _stext\n0000000000000000 t do_syscall_64\n")
    assert kernel.reason
    assert "kernel.kptr_restrict" in kernel.reason
    frame = kernel.symbolise(0xFFFFFFFF81000100)
    assert (frame.name, frame.object, frame.address) == (None, "kernel", 0xFFFFFFFF81000100)


def test_no_kallsyms_says_why(tmp_path: Path) -> None:
    kernel = KernelSymbols(tmp_path / "none")
    assert kernel.reason
    assert "No such file" in kernel.reason


def test_this_kernel() -> None:
    kernel = KernelSymbols()
    if kernel.reason:
        pytest.skip(kernel.reason)
    by_name: dict[str, int] = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        word, _, name = line.split(" ", 2)
        by_name.setdefault(name, int(word, 16))
    address = by_name["do_exit"]
    frame = kernel.symbolise(address + 4)
    assert (frame.name, frame.offset, frame.object) == ("do_exit", 4, "kernel")
