"""At which functions an Open vSwitch without USDT probes is followed."""

import os
import shutil
from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError
from kernel_delay.openvswitch.functions import (
    MAIN_LOOP,
    RECEIPTS,
    REVALIDATED_FLOWS,
    REVALIDATORS,
    Followed,
    at_functions,
    without_probes,
)
from kernel_delay.probes.objects import ProbedObject, file_object
from kernel_delay.symbols.elf import read_elf
from kernel_delay.symbols.functions import Functions

LACKING = NoInputError("no USDT probe u:main:run_start")


class WithSymbols(ProbedObject, frozen=True):
    """A file with these functions, whatever is in it."""

    names: tuple[str, ...]

    def functions(self) -> Functions:
        """All of them where its code begins."""
        fd = os.open(self.path, os.O_RDONLY)
        try:
            elf = read_elf(fd)
        finally:
            os.close(fd)
        assert elf is not None
        address = next(each.address for each in elf.segments if each.executable)
        return Functions(elf, dict.fromkeys(self.names, (address,)), stripped=False)


def program(name: str, *names: str, of: str = "/bin/true") -> ProbedObject:
    return WithSymbols(name, of, "/", of, is_library=False, names=names)


@pytest.fixture
def stripped(tmp_path: Path) -> ProbedObject:
    shutil.copy("/bin/true", tmp_path / "ovs-vswitchd")
    return file_object(tmp_path / "ovs-vswitchd")


def refusal(what: Followed, where: ProbedObject, *, is_netdev: bool = False) -> str:
    with pytest.raises(NoInputError) as raised:
        what.find_functions([where], LACKING, is_netdev=is_netdev)
    return str(raised.value)


def test_a_pass_ends_where_its_last_function_returns() -> None:
    places = MAIN_LOOP.find_functions(
        [program("ovs-vswitchd", "memory_run", "netdev_wait")], LACKING, is_netdev=True
    )
    assert {name: place.is_return for name, place in places.items()} == {
        "on_run_start": False,
        "on_poll_block": True,
    }


def test_functions_of_its_library_serve() -> None:
    objects = (program("ovs-vswitchd"), program("/usr/lib/libopenvswitch-3.1.so.0", "dpif_recv"))
    places = RECEIPTS.find_functions(objects, LACKING, is_netdev=False)
    assert {place.object for place in places.values()} == {"/usr/lib/libopenvswitch-3.1.so.0"}


def test_a_clone_does_not_serve() -> None:
    clone = program("ovs-vswitchd", "revalidate_ukey__.isra.0")
    assert "it has no symbol revalidate_ukey__ either: use" in refusal(REVALIDATED_FLOWS, clone)


def test_a_stripped_one_names_the_package_and_a_command(stripped: ProbedObject) -> None:
    reason = refusal(MAIN_LOOP, stripped)
    assert "install openvswitch-switch-dbgsym (Debian, Ubuntu)" in reason
    assert "/usr/lib/debug/.build-id/" in reason
    assert reason.endswith("or use 'kernel-delay watch'")


def test_another_program_only_lacks_the_probe() -> None:
    assert refusal(MAIN_LOOP, program("true")) == str(LACKING)
    assert without_probes(LACKING, [program("true")], is_netdev=True) is LACKING


def test_flows_without_probes_name_datapath_ops(stripped: ProbedObject) -> None:
    assert str(without_probes(LACKING, [stripped], is_netdev=False)).endswith(
        "'kernel-delay datapath-ops' needs no probe"
    )


def test_advice_on_netdev_names_no_netlink_command(stripped: ProbedObject) -> None:
    """datapath-ops sees nothing there, and had named `flows` in turn."""
    reason = refusal(REVALIDATORS, stripped, is_netdev=True)
    assert reason.endswith("or use 'ovs-appctl upcall/show'")
    flows = str(without_probes(LACKING, [stripped], is_netdev=True))
    assert flows.endswith("; 'ovs-appctl dpctl/dump-flows' lists the flows")
    assert "datapath-ops" not in reason + flows


def test_a_report_names_each_function_once() -> None:
    places = RECEIPTS.find_functions(
        [program("ovs-vswitchd", "dpif_recv")], LACKING, is_netdev=False
    )
    assert at_functions(places, RECEIPTS) == "no USDT probes: measured at dpif_recv()"
