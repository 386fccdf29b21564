"""What holds the root of a wait chain: its stopper, its cgroups, its device."""

import os

import pytest

from kernel_delay.capture.chains import held_by
from kernel_delay.capture.chains._chain_records import ffi
from kernel_delay.capture.chains.held_by import HeldBy, device_name
from kernel_delay.capture.chains.names import Names
from kernel_delay.host.cgroups import CgroupState, Hierarchy
from kernel_delay.host.open_files import MINOR_BITS
from kernel_delay.host.target import PROC, read_comm
from kernel_delay.model import ChainThread

SHELL = ChainThread(5, 5, "bash")


def level(path: str, quota_ns: int | None, throttled_ns: int) -> CgroupState:
    return CgroupState(path, quota_ns, 100_000_000, 1, throttled_ns)


def test_cgroup_that_throttled_since_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = iter(
        [
            (level("/a/b", 10, 900), level("/a", 10, 100), level("/", None, 0)),
            (level("/a/b", 10, 900), level("/a", 10, 800), level("/", None, 0)),
        ]
    )
    monkeypatch.setattr(held_by, "read_hierarchy", lambda pid: Hierarchy(next(levels)))
    held = HeldBy()
    held.begin(7)
    assert held.cgroup(7, "throttled") == "/a"


def test_cgroup_that_throttled_is_known_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Hierarchy | None] = [Hierarchy((level("/a", 10, 100),))]
    monkeypatch.setattr(held_by, "read_hierarchy", lambda pid: found[0])
    held = HeldBy()
    held.look(7, "throttled")
    found[0] = None
    assert held.cgroup(7, "throttled") == "/a"
    held.forget()
    assert held.cgroup(7, "throttled") is None


def test_cgroup_of_a_child_is_compared_with_its_parent_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """What throttled before the child was moved there is not known."""
    levels: tuple[CgroupState, ...] = (level("/a", 10, 100), level("/", None, 0))
    monkeypatch.setattr(held_by, "read_hierarchy", lambda pid: Hierarchy(levels))
    held = HeldBy()
    held.begin(7)
    held.begin_as(8, 7)
    levels = (level("/b", 10, 900), level("/a", 10, 200), level("/", None, 0))
    assert held.cgroup(8, "throttled") == "/a"


def test_frozen_cgroup_is_known_after_it_was_thawed(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = Hierarchy((), freezers=("/sys/fs/cgroup/batch/cgroup.freeze",))
    monkeypatch.setattr(held_by, "read_hierarchy", lambda pid: frozen)
    held = HeldBy()
    held.look(7, "frozen")
    monkeypatch.setattr(held_by, "read_hierarchy", lambda pid: Hierarchy(()))
    assert held.cgroup(7, "frozen") == "/sys/fs/cgroup/batch"
    assert held.freezers(7, "frozen") == frozen.freezers
    held.forget()
    assert held.cgroup(7, "frozen") is None
    assert not held.freezers(7, "frozen")


def test_tracer_that_sends_the_stop_is_a_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_by, "tracer", lambda pid, pids: ("gdb", 9))
    held = HeldBy()
    held.look(7, "stopped")
    held.signalled(7, ChainThread(9, 9, "gdb"))
    assert held.is_traced(7)
    # Beside its tracer another one stops it: a SIGCONT resumes it.
    held.signalled(7, SHELL)
    assert not held.is_traced(7)
    assert not held.is_traced(8)


def test_last_sender_of_a_stop_is_the_stopper() -> None:
    held = HeldBy()
    held.signalled(7, SHELL)
    assert held.stopper(7) == SHELL
    held.signalled(7, None)
    assert held.stopper(7) is None


def test_device_has_the_name_of_sysfs() -> None:
    assert device_name(0) is None
    for entry in os.listdir("/sys/dev/block"):
        major, minor = map(int, entry.split(":"))
        name = os.path.basename(os.readlink(f"/sys/dev/block/{entry}"))
        assert device_name(major << MINOR_BITS | minor) == name


def test_who_stopped_it_is_the_same_whoever_said_so() -> None:
    """The sender of the signal, and the waker of the event: in one part of a chain."""
    names, pid = Names(), os.getpid()
    event = ffi.new("struct chain_event *")
    event.waker = event.waker_process = pid
    names.note_waker(event)
    sender = names.waker(pid)
    assert sender is not None
    assert names.with_process(sender, {}) == names.named(pid, {})
    assert names.named(pid, {}).process == read_comm(PROC / str(pid))
