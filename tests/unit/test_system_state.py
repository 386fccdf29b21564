"""What bears on a process: its cgroups, by files as v1 and v2 have them, and its machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay.host import cgroups, system_state
from kernel_delay.host.cgroups import CgroupState, Hierarchy, MemoryState
from kernel_delay.host.system_state import Snapshot, between, scheduling
from kernel_delay.model import CpuUse, MemoryLimit

MS = 1_000_000


def proc(folder: Path, membership: str, *mounts: str) -> Path:
    """A /proc with process 7 in it, and these mounts."""
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "7" / "cgroup").write_text(membership)
    (folder / "proc" / "self").mkdir()
    lines = [f"31 23 0:28 / {mount} rw - {mount_type}" for mount, mount_type in _split(mounts)]
    (folder / "proc" / "self" / "mountinfo").write_text("\n".join(lines) + "\n")
    return folder / "proc"


def _split(mounts: tuple[str, ...]) -> list[list[str]]:
    return [mount.split("|") for mount in mounts]


def cgroup(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_v2_quota_of_a_cgroup_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "fs"
    statistics = "usage_usec 1\nnr_periods 9\nnr_throttled 4\nthrottled_usec 250000\n"
    cgroup(root)
    cgroup(root / "pods", cpu__max="20000 100000\n", cpu__stat=statistics, cgroup__freeze="0\n")
    cgroup(
        root / "pods" / "a",
        cpu__max="max 100000\n",
        cpu__stat=statistics.replace("4", "0").replace("250000", "0"),
        cgroup__freeze="1\n",
    )
    folder = proc(tmp_path, "0::/pods/a\n", f"{root}|cgroup2 cgroup2 rw")
    monkeypatch.setattr(cgroups, "PROC", folder)
    assert cgroups.read_hierarchy(7) == Hierarchy(
        (
            CgroupState("/pods/a", None, 100 * MS, 0, 0, 1_000),
            CgroupState("/pods", 20 * MS, 100 * MS, 4, 250 * MS, 1_000),
        ),
        freezers=(str(root / "pods" / "a" / "cgroup.freeze"),),
    )
    # The quota is of the cgroup above, the freezer is not.
    found = between(Snapshot.take(7), Snapshot.take(7), 7)
    assert found.cgroup is not None
    assert found.cgroup.path == "/pods"
    assert found.freezers == (str(root / "pods" / "a" / "cgroup.freeze"),)


def test_v1_quota_and_freezer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, freezer = tmp_path / "cpu", tmp_path / "freezer"
    statistics = "nr_periods 9\nnr_throttled 4\nthrottled_time 123456789\n"
    cgroup(
        cpu / "box",
        cpu__cfs_quota_us="50000\n",
        cpu__cfs_period_us="100000\n",
        cpu__stat=statistics,
        cpuacct__usage="77\n",
    )
    cgroup(cpu, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n", cpu__stat=statistics)
    frozen = {"freezer__state": "FROZEN\n", "freezer__parent_freezing": "1\n"}
    cgroup(freezer / "ice", freezer__self_freezing="1\n", **frozen)
    cgroup(freezer / "ice" / "cube", freezer__self_freezing="0\n", **frozen)
    membership = "3:freezer:/ice/cube\n1:cpu,cpuacct:/box\n0::/\n"
    folder = proc(
        tmp_path,
        membership,
        f"{cpu}|cgroup cgroup rw,cpu,cpuacct",
        f"{freezer}|cgroup cgroup rw,freezer",
    )
    monkeypatch.setattr(cgroups, "PROC", folder)
    found = cgroups.read_hierarchy(7)
    assert found is not None
    assert found.freezers == (str(freezer / "ice" / "freezer.state"),)
    assert found.levels[0] == CgroupState("/box", 50 * MS, 100 * MS, 4, 123_456_789, 77)
    assert (found.levels[1].quota_ns, found.levels[1].used_ns) == (None, None)


def test_v1_may_count_use_in_another_hierarchy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, counts = tmp_path / "cpu", tmp_path / "cpuacct"
    statistics = "nr_periods 9\nnr_throttled 4\nthrottled_time 1\n"
    cgroup(cpu, cpu__stat=statistics)
    cgroup(cpu / "box", cpu__stat=statistics)
    cgroup(counts, cpuacct__usage="99\n")
    cgroup(counts / "box", cpuacct__usage="77\n")
    mounted = (f"{cpu}|cgroup cgroup rw,cpu", f"{counts}|cgroup cgroup rw,cpuacct")
    for place, used_ns in (("/box", 77), ("/", None)):
        (tmp_path / place.strip("/")).mkdir(exist_ok=True)
        folder = proc(tmp_path / place.strip("/"), f"3:cpuacct:{place}\n1:cpu:/box\n", *mounted)
        monkeypatch.setattr(cgroups, "PROC", folder)
        found = cgroups.read_hierarchy(7)
        assert found is not None
        # Of one that is not in the same cgroup there nothing is known.
        assert found.levels[0].used_ns == used_ns


def test_limits_of_memory_that_were_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    v1, v2 = tmp_path / "memory", tmp_path / "unified"
    cgroup(v1, memory__limit_in_bytes="9223372036854771712\n", memory__failcnt="0\n")
    cgroup(v1 / "box", memory__limit_in_bytes="16777216\n", memory__failcnt="70\n")
    events = "low 0\nhigh 5\nmax 3\noom 0\n"
    cgroup(v2 / "high", memory__high="1000\n", memory__max="2000\n", memory__events=events)
    cgroup(
        v2 / "high" / "max",
        memory__high="max\n",
        memory__max="3000\n",
        memory__events=events,
        memory__events__local="high 0\nmax 4\n",
    )
    folder = proc(
        tmp_path,
        "3:memory:/box\n0::/high/max\n",
        f"{v1}|cgroup cgroup rw,memory",
        f"{v2}|cgroup2 cgroup2 rw",
    )
    monkeypatch.setattr(cgroups, "PROC", folder)
    found = cgroups.read_hierarchy(7)
    assert found is not None
    assert found.memory == (
        MemoryState("/box", 16 << 20, 70),
        MemoryState("/high/max", 3000, 4),
        MemoryState("/high", 1000, 5),
    )


def test_memory_limit_reached_most_often_is_reported() -> None:
    before = Hierarchy((), (), (MemoryState("/a", 9, 5), MemoryState("/b", 8, 100)))
    after = Hierarchy((), (), (MemoryState("/a", 9, 65), MemoryState("/b", 8, 101)))
    found = between(Snapshot({}, before), Snapshot({}, after), os.getpid())
    assert found.memory == MemoryLimit("/a", 9, 60)
    assert between(Snapshot({}, after), Snapshot({}, after), os.getpid()).memory is None


def test_a_process_whose_core_is_dumped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    status = tmp_path / "7" / "status"
    monkeypatch.setattr(system_state, "PROC", tmp_path)
    empty = Snapshot({}, None)
    for line, dumping in (("CoreDumping:\t1\n", True), ("CoreDumping:\t0\n", False), ("", False)):
        status.write_text(f"Name:\ttarget\nTracerPid:\t0\n{line}")
        assert between(empty, empty, 7).dumping == dumping


def test_container_with_its_own_cgroup_mount_knows_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "quota -1\n", "nr_throttled 5\nthrottled_time 6\n"
    cgroup(tmp_path / "fs" / "cpu", cpu__cfs_quota_us=own[0], cpu__stat=own[1])
    folder = proc(tmp_path, "2:cpu:/pods/a\n", f"{tmp_path / 'fs' / 'cpu'}|cgroup cgroup rw,cpu")
    mountinfo = folder / "self" / "mountinfo"
    monkeypatch.setattr(cgroups, "PROC", folder)
    for root, known in (("/pods/b", []), ("/pods/a", ["/pods/a"])):
        mountinfo.write_text(
            f"31 23 0:28 {root} {tmp_path / 'fs' / 'cpu'} rw - cgroup cgroup rw,cpu\n"
        )
        assert not cgroups.are_mounted()
        found = cgroups.read_hierarchy(7)
        assert found is not None
        assert [level.path for level in found.levels] == known


def test_another_namespaces_cgroup_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cgroup(tmp_path / "fs", cpu__stat="nr_throttled 1\nthrottled_usec 1\n")
    folder = proc(tmp_path, "0::/../other\n", f"{tmp_path / 'fs'}|cgroup2 cgroup2 rw")
    monkeypatch.setattr(cgroups, "PROC", folder)
    assert cgroups.read_hierarchy(7) == Hierarchy(())
    assert cgroups.read_hierarchy(8) is None


def test_the_cgroup_that_was_throttled_is_reported() -> None:
    def hierarchy(throttled: int) -> Hierarchy:
        leaf = CgroupState("/pods/a", 30 * MS, 100 * MS, 0, 0)
        pods = CgroupState("/pods", 20 * MS, 100 * MS, 1, throttled, 2 * throttled)
        return Hierarchy((leaf, pods))

    cpus = {0: (5, 0), 1: (7, 3)}
    before = Snapshot(cpus, hierarchy(100))
    found = between(before, Snapshot({0: (9, 0), 1: (7, 8)}, hierarchy(350)), os.getpid())
    assert found.cgroup is not None
    assert (found.cgroup.path, found.cgroup.throttled_ns) == ("/pods", 250)
    assert found.cgroup.used_ns == 500
    assert found.cpus == (CpuUse(0, 4, 0), CpuUse(1, 0, 5))
    quiet = between(before, before, os.getpid())
    assert quiet.cgroup is not None
    assert (quiet.cgroup.path, quiet.cgroup.used_ns) == ("/pods/a", None)


def test_this_machine() -> None:
    first = Snapshot.take(os.getpid())
    assert set(first.cpus) >= os.sched_getaffinity(0)
    found = between(first, Snapshot.take(os.getpid()), os.getpid())
    assert found.tracer is None
    assert {use.cpu for use in found.cpus} == set(first.cpus)


def test_how_a_thread_is_scheduled() -> None:
    cpu = max(os.sched_getaffinity(0))
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as child:
        os.setpriority(os.PRIO_PROCESS, child.pid, 7)
        os.sched_setaffinity(child.pid, {cpu})
        found = scheduling(child.pid)
        child.communicate()
    assert found is not None
    assert (found.policy, found.nice, found.cpus) == ("OTHER", 7, (cpu,))
    assert scheduling(child.pid) is None


def test_who_traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for pid, name in ((7, "target"), (9, "strace")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "7" / "status").write_text("Name:\ttarget\nTracerPid:\t9\n")
    monkeypatch.setattr(system_state, "PROC", tmp_path)
    empty = Snapshot({}, None)
    assert between(empty, empty, 7).tracer == ("strace", 9)


def test_a_thread_has_a_tracer_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tid, tracer in ((7, 0), (8, 70)):
        folder = tmp_path / "7" / "task" / str(tid)
        folder.mkdir(parents=True)
        (folder / "status").write_text(f"TracerPid:\t{tracer}\n")
    (tmp_path / "70").mkdir()
    (tmp_path / "70" / "comm").write_text("seizer\n")
    monkeypatch.setattr(system_state, "PROC", tmp_path)
    assert system_state.tracer(7, [7, 8]) == ("seizer", 70)
    assert system_state.tracer(7, [7, 9]) is None
