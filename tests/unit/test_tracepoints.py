"""Tracepoints in a directory laid out as tracefs."""

from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError
from kernel_delay.probes import Tracepoint
from kernel_delay.probes.kernel import find_tracepoint, tracepoint_names

NAMES = ("sched:sched_switch", "sched:sched_wakeup", "syscalls:sys_enter_openat")


@pytest.fixture
def tracefs(tmp_path: Path) -> Path:
    (tmp_path / "available_events").write_text("\n".join(reversed(NAMES)) + "\n")
    for number, name in enumerate(NAMES):
        directory = tmp_path / "events" / name.replace(":", "/")
        directory.mkdir(parents=True)
        (directory / "id").write_text(f"{number + 300}\n")
    # The system itself has files too, and ftrace's own events have no id.
    (tmp_path / "events" / "sched" / "enable").write_text("0\n")
    (tmp_path / "events" / "ftrace" / "print").mkdir(parents=True)
    return tmp_path


def test_found_with_its_id(tracefs: Path) -> None:
    expected = Tracepoint("syscalls", "sys_enter_openat", 302)
    assert find_tracepoint(tracefs, "syscalls", "sys_enter_openat") == expected


def test_all_names(tracefs: Path) -> None:
    assert tracepoint_names(tracefs) == NAMES


@pytest.mark.parametrize(
    ("system", "event", "hint"),
    [
        ("sched", "sched_swich", "no tracepoint t:sched:sched_swich; closest: t:sched:sched_swit"),
        ("shed", "nothing", "no system 'shed' .*; closest: t:sched:…"),
        ("raw", "sched_switch", "closest: t:sched:sched_switch"),
        ("openvswitch", "ovs_dp_upcall", "once the module is loaded"),
        ("ftrace", "print", "no tracepoint t:ftrace:print"),
        ("sched", "enable", "no tracepoint t:sched:enable"),
    ],
)
def test_missing(tracefs: Path, system: str, event: str, hint: str) -> None:
    with pytest.raises(NoInputError, match=hint):
        find_tracepoint(tracefs, system, event)
