"""Finding Open vSwitch's programs."""

from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError
from lab.binaries import Binaries

PROGRAMS = {
    "ovsdb_server": "ovsdb-server",
    "ovs_vswitchd": "ovs-vswitchd",
    "ovs_vsctl": "ovs-vsctl",
    "ovs_appctl": "ovs-appctl",
    "ovs_ofctl": "ovs-ofctl",
    "ovsdb_tool": "ovsdb-tool",
}
SCHEMA = "vswitch.ovsschema"


def lay_out(root: Path, folders: dict[str, str]) -> None:
    for name, folder in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / name).touch()


def test_an_unpacked_debian_package(tmp_path: Path) -> None:
    folders = dict.fromkeys(PROGRAMS.values(), "usr/bin")
    folders |= {"ovs-vswitchd": "usr/lib/openvswitch-switch", "ovsdb-server": "usr/sbin"}
    folders |= {SCHEMA: "usr/share/openvswitch"}
    lay_out(tmp_path, folders)
    found = Binaries.under(tmp_path)
    for field, name in PROGRAMS.items():
        assert getattr(found, field) == tmp_path / folders[name] / name
    assert found.schema == tmp_path / "usr/share/openvswitch" / SCHEMA


def test_a_build_tree(tmp_path: Path) -> None:
    folders = dict.fromkeys(PROGRAMS.values(), "utilities")
    folders |= {"ovsdb-server": "ovsdb", "ovsdb-tool": "ovsdb", "ovs-vswitchd": "vswitchd"}
    folders |= {SCHEMA: "vswitchd"}
    lay_out(tmp_path, folders)
    found = Binaries.under(tmp_path)
    assert found.ovs_vswitchd == tmp_path / "vswitchd" / "ovs-vswitchd"
    assert found.ovsdb_tool == tmp_path / "ovsdb" / "ovsdb-tool"
    assert found.schema == tmp_path / "vswitchd" / SCHEMA


@pytest.mark.parametrize("missing", [*PROGRAMS.values(), SCHEMA])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folders = dict.fromkeys(PROGRAMS.values(), "usr/bin") | {SCHEMA: "usr/share/openvswitch"}
    del folders[missing]
    lay_out(tmp_path, folders)
    with pytest.raises(NoInputError, match=missing) as raised:
        Binaries.under(tmp_path)
    assert "\n" not in str(raised.value)
