"""How two processes share a CPU, by files as cgroup v1 and v2 have them, and by sessions."""

from pathlib import Path

import pytest

from kernel_delay.host import cgroups, system_state
from kernel_delay.model import CpuWeights

TARGET, OTHER = 7, 8


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without cgroups or processes yet; /proc and /fs of it are folders."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    for module in (cgroups, system_state):
        monkeypatch.setattr(module, "PROC", tmp_path / "proc")
    return tmp_path


def mount(machine: Path, kind: str, options: str) -> None:
    line = f"31 23 0:28 / {machine}/fs rw - {kind} {kind} {options}\n"
    (machine / "proc" / "self" / "mountinfo").write_text(line)


def process(machine: Path, pid: int, membership: str, autogroup: str = "") -> None:
    (machine / "proc" / str(pid)).mkdir()
    (machine / "proc" / str(pid) / "cgroup").write_text(membership)
    (machine / "proc" / str(pid) / "autogroup").write_text(autogroup)


def cgroup(machine: Path, path: str, **files: str) -> None:
    folder = machine / "fs" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_v2_weights_count_where_the_ways_part(machine: Path) -> None:
    mount(machine, "cgroup2", "rw")
    cgroup(machine, "pods")
    cgroup(machine, "pods", cpu__weight="100\n")
    cgroup(machine, "pods/a", cpu__weight="20\n")
    cgroup(machine, "pods/a/main", cpu__weight="10000\n")
    cgroup(machine, "pods/b", cpu__weight="400\n", cpu__idle="0\n")
    process(machine, TARGET, "0::/pods/a/main\n")
    process(machine, OTHER, "0::/pods/b\n")
    assert system_state.cpu_weights(TARGET, [OTHER]) == (
        CpuWeights(OTHER, "/pods/a", 20, "/pods/b", 400),
    )
    (machine / "fs" / "pods" / "b" / "cpu.idle").write_text("1\n")
    assert system_state.cpu_weights(OTHER, [TARGET]) == (
        CpuWeights(TARGET, "/pods/b", 0, "/pods/a", 20),
    )


def test_v2_cgroup_without_a_weight_uses_its_parents(machine: Path) -> None:
    mount(machine, "cgroup2", "rw")
    cgroup(machine, "a", cpu__weight="20\n")
    cgroup(machine, "a/deep")
    process(machine, TARGET, "0::/a/deep\n")
    process(machine, OTHER, "0::/\n")
    assert system_state.cpu_weights(TARGET, [OTHER]) == (CpuWeights(OTHER, "/a", 20, None, 100),)


def test_v1_shares(machine: Path) -> None:
    mount(machine, "cgroup", "rw,cpu,cpuacct")
    cgroup(machine, "", cpu__shares="1024\n")
    cgroup(machine, "low", cpu__shares="64\n")
    process(machine, TARGET, "3:cpu,cpuacct:/low\n0::/x\n")
    process(machine, OTHER, "3:cpu,cpuacct:/\n0::/y\n")
    known = system_state.cpu_weights(TARGET, [OTHER])
    assert known == (CpuWeights(OTHER, "/low", 64, None, 1024),)
    known = system_state.cpu_weights(OTHER, [TARGET])
    assert known == (CpuWeights(TARGET, None, 1024, "/low", 64),)


def test_tasks_of_one_cgroup_have_no_cgroup_weights(machine: Path) -> None:
    mount(machine, "cgroup2", "rw")
    cgroup(machine, "a", cpu__weight="20\n")
    process(machine, TARGET, "0::/a\n")
    process(machine, OTHER, "0::/a\n")
    assert system_state.cpu_weights(TARGET, [OTHER, 9]) == ()


def test_sessions_share_a_cpu_out_among_them(machine: Path) -> None:
    mount(machine, "cgroup", "rw,cpu")
    cgroup(machine, "", cpu__shares="1024\n")
    process(machine, TARGET, "3:cpu:/\n", "/autogroup-4 nice 0\n")
    process(machine, OTHER, "3:cpu:/\n", "/autogroup-5 nice 0\n")
    setting = machine / "proc" / "sys" / "kernel" / "sched_autogroup_enabled"
    setting.parent.mkdir(parents=True)
    for enabled, found in (
        ("1\n", (CpuWeights(OTHER, "/autogroup-4", 1024, "/autogroup-5", 1024),)),
        ("0\n", ()),
    ):
        setting.write_text(enabled)
        assert system_state.cpu_weights(TARGET, [OTHER]) == found
    setting.write_text("1\n")
    (machine / "proc" / str(TARGET) / "autogroup").write_text("/autogroup-4 nice 15\n")
    (machine / "proc" / str(OTHER) / "autogroup").write_text("/autogroup-5 nice -20\n")
    assert system_state.cpu_weights(TARGET, [OTHER]) == (
        CpuWeights(OTHER, "/autogroup-4", 36, "/autogroup-5", 88761),
    )
    (machine / "proc" / str(OTHER) / "autogroup").write_text("something else\n")
    assert system_state.cpu_weights(TARGET, [OTHER]) == ()


def test_nothing_is_read_where_nobody_had_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_state, "cpu_cgroups", lambda pid: pytest.fail("was read"))
    assert system_state.cpu_weights(TARGET, ()) == ()
