"""Where hierarchies of cgroups are mounted, and what of them can hold a process."""

from pathlib import Path

import pytest

from kernel_delay.host import cgroups
from kernel_delay.host.cgroups import may_be_frozen, mount_points

MOUNTS = """\
25 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw
26 25 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
27 25 0:24 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
28 25 0:25 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
29 25 0:26 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
30 25 0:27 / /sys/fs/cgroup/unified/inner rw - cgroup cgroup rw,memory
"""


def test_nested_mounts_come_first_and_others_in_kernel_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text(MOUNTS)
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    names = [place.name for place in mount_points()]
    assert names == ["inner", "unified", "pids", "cpu,cpuacct", "blkio"]


@pytest.mark.parametrize(
    ("cgroups_of_it", "is_so"),
    [
        ("6:freezer:/\n0::/a\n", False),
        ("6:freezer,pids:/docker/a\n0::/\n", True),
        ("0::/docker/a\n", False),
        (None, True),
    ],
)
def test_only_cgroups_below_the_v1_root_may_be_frozen(
    cgroups_of_it: str | None, is_so: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "42").mkdir()
    if cgroups_of_it is not None:
        (tmp_path / "42" / "cgroup").write_text(cgroups_of_it)
    namespaces = tmp_path / "self" / "ns"
    namespaces.mkdir(parents=True)
    (namespaces / "cgroup").touch()
    inode = (namespaces / "cgroup").stat().st_ino
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    monkeypatch.setattr(cgroups, "INITIAL_CGROUP_NAMESPACE_INODE", inode)
    assert may_be_frozen(42) is is_so


def test_the_root_of_a_cgroup_namespace_may_be_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text("6:freezer:/\n")
    namespaces = tmp_path / "self" / "ns"
    namespaces.mkdir(parents=True)
    (namespaces / "cgroup").touch()
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    assert may_be_frozen(42)


def test_a_mount_point_may_have_any_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "self").mkdir()
    mounted = MOUNTS + "31 1 0:28 / /mnt/a\vb\rc\x1cd rw - tmpfs tmpfs rw\n"
    (tmp_path / "self" / "mountinfo").write_bytes(
        mounted.encode() + b"32 1 0:29 / /\xff rw - a b\n"
    )
    monkeypatch.setattr(cgroups, "PROC", tmp_path)
    assert len(mount_points()) == 5
