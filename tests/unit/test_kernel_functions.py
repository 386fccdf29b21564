"""What can be a kprobe, from files as kernels with kprobes write them."""

from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.probes import KernelProbe
from kernel_delay.probes.kernel import (
    KernelFunctions,
    read_blacklist,
    read_kallsyms,
    read_traceable,
    with_aliases,
)

KALLSYMS = """\
ffffffff81000000 T _stext
ffffffff81000010 T vfs_read
ffffffff81000020 t __pfx_vfs_write
ffffffff81000030 T vfs_write
ffffffff81000040 t cleanup
ffffffff81000050 t cleanup
ffffffff81000060 T native_write_msr
ffffffff81000070 T irq_enter_rcu
ffffffff82000000 D jiffies
ffffffffc0000000 t ovs_dp_process_packet\t[openvswitch]
"""
FILTER_FUNCTIONS = """\
vfs_read
vfs_write
cleanup
cleanup
irq_enter_rcu
ovs_dp_process_packet [openvswitch]
"""
BLACKLIST = "0xffffffff81000070-0xffffffff81000080\tirq_enter_rcu\n"


@pytest.fixture
def functions(tmp_path: Path) -> KernelFunctions:
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    (tmp_path / "available_filter_functions").write_text(FILTER_FUNCTIONS)
    (tmp_path / "kprobes").mkdir()
    (tmp_path / "kprobes" / "blacklist").write_text(BLACKLIST)
    return KernelFunctions(
        read_kallsyms(tmp_path / "kallsyms")[0], read_traceable(tmp_path), read_blacklist(tmp_path)
    )


def test_functions_of_the_kernel_and_of_modules(functions: KernelFunctions) -> None:
    assert functions.find("vfs_read", 0x10, is_return=False) == KernelProbe("vfs_read", 0x10)
    assert functions.find("ovs_dp_process_packet", 0, is_return=True).is_return


def test_only_what_find_accepts_is_listed(functions: KernelFunctions) -> None:
    assert set(functions.probeable()) == {"vfs_read", "vfs_write", "ovs_dp_process_packet"}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("irq_enter_rcu", "blacklist"),
        ("native_write_msr", "notrace"),
        ("cleanup", "2 functions have that name"),
    ],
)
def test_a_function_that_can_t_be_probed(
    functions: KernelFunctions, function: str, reason: str
) -> None:
    with pytest.raises(UnavailableError, match=f"{function} can't be probed: .*{reason}"):
        functions.find(function, 0, is_return=False)


@pytest.mark.parametrize("function", ["vfs_reed", "jiffies", "__pfx_vfs_write"])
def test_what_is_no_function_gets_the_closest(functions: KernelFunctions, function: str) -> None:
    with pytest.raises(NoInputError, match=f"no kernel function {function} "):
        functions.find(function, 0, is_return=False)


def test_the_closest_are_ready_to_paste(functions: KernelFunctions) -> None:
    with pytest.raises(NoInputError, match="; closest: k:vfs_read"):
        functions.find("vfs_reed", 0, is_return=False)


def test_kernel_that_hides_its_lists_still_finds_functions(tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text(KALLSYMS)
    functions = KernelFunctions(
        read_kallsyms(tmp_path / "kallsyms")[0], read_traceable(tmp_path), read_blacklist(tmp_path)
    )
    assert (functions.traceable, functions.blacklist) == (None, None)
    assert functions.find("irq_enter_rcu", 0, is_return=False).function == "irq_enter_rcu"


def test_a_function_has_all_its_names(tmp_path: Path) -> None:
    """The kernel's lists have one of them (kernel/kallsyms.c:get_symbol_pos())."""
    (tmp_path / "kallsyms").write_text(
        KALLSYMS
        + "ffffffff81000080 T __ia32_sys_getppid\nffffffff81000080 T __x64_sys_getppid\n"
        + "ffffffff81000070 T irq_enter\n"
    )
    count, aliases = read_kallsyms(tmp_path / "kallsyms")
    assert set(aliases) == {
        frozenset({"__ia32_sys_getppid", "__x64_sys_getppid"}),
        frozenset({"irq_enter", "irq_enter_rcu"}),
    }
    functions = KernelFunctions(
        count,
        with_aliases(frozenset({"__ia32_sys_getppid", "irq_enter"}), aliases),
        with_aliases(frozenset({"irq_enter_rcu"}), aliases),
    )
    assert set(functions.probeable()) == {"__ia32_sys_getppid", "__x64_sys_getppid"}


def test_hidden_addresses_make_no_aliases(tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text("0000000000000000 T a\n0000000000000000 T b\n")
    assert read_kallsyms(tmp_path / "kallsyms") == ({"a": 1, "b": 1}, ())
    assert with_aliases(None, ()) is None
