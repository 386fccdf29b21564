"""Where Open vSwitch's programs and its database schema are."""

from pathlib import Path
from typing import Self

from msgspec import Struct

from kernel_delay.errors import NoInputError

# Relative to a root: an installed or unpacked package, a `make install` prefix, a build tree.
# Debian keeps ovs-vswitchd itself in lib/openvswitch-switch; sbin has only a link to it, which
# update-alternatives makes, so an unpacked package is without.
_PROGRAM_FOLDERS = (
    "usr/lib/openvswitch-switch",
    "usr/sbin",
    "usr/bin",
    "usr/local/sbin",
    "usr/local/bin",
    "sbin",
    "bin",
    "vswitchd",
    "ovsdb",
    "utilities",
)
_SCHEMA_FOLDERS = (
    "usr/share/openvswitch",
    "usr/local/share/openvswitch",
    "share/openvswitch",
    "vswitchd",
)


class Binaries(Struct, frozen=True):
    """The files an Instance is run from; they may come from anywhere."""

    ovsdb_server: Path
    ovs_vswitchd: Path
    ovs_vsctl: Path
    ovs_appctl: Path
    ovs_ofctl: Path
    ovsdb_tool: Path
    schema: Path

    @classmethod
    def under(cls, root: Path) -> Self:
        """Finds them below `root`: `/`, an unpacked package, a prefix, or a build tree.

        Raises NoInputError when one is missing.
        """
        return cls(
            ovsdb_server=_find(root, _PROGRAM_FOLDERS, "ovsdb-server"),
            ovs_vswitchd=_find(root, _PROGRAM_FOLDERS, "ovs-vswitchd"),
            ovs_vsctl=_find(root, _PROGRAM_FOLDERS, "ovs-vsctl"),
            ovs_appctl=_find(root, _PROGRAM_FOLDERS, "ovs-appctl"),
            ovs_ofctl=_find(root, _PROGRAM_FOLDERS, "ovs-ofctl"),
            ovsdb_tool=_find(root, _PROGRAM_FOLDERS, "ovsdb-tool"),
            schema=_find(root, _SCHEMA_FOLDERS, "vswitch.ovsschema"),
        )


def _find(root: Path, folders: tuple[str, ...], name: str) -> Path:
    for folder in folders:
        path = root / folder / name
        if path.is_file():
            return path
    raise NoInputError(f"no {name} under {root}: get Open vSwitch with setup/openvswitch.sh")
