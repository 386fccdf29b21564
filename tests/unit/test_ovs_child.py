"""A helper process: its words, its network and its end."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernel_delay.errors import TimeoutExpiredError
from lab.child import Child, ChildFailedError
from tests.workload import HANGS_S


def gone(pid: int) -> bool:
    """Whether the process ended, within a generous time."""
    deadline = time.monotonic() + HANGS_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_words_go_both_ways() -> None:
    child = Child(["sh", "-c", "echo ready; read word; echo $word; exec sleep 3600"])
    try:
        child.expect("ready", HANGS_S)
        child.tell("hello")
        child.expect("hello", HANGS_S)
        assert child.running()
    finally:
        child.stop()
    assert gone(child.pid)


def test_silence_is_a_timeout() -> None:
    child = Child(["sleep", "60"])
    try:
        with pytest.raises(TimeoutExpiredError, match="sleep was not ready"):
            child.expect("ready", 0.05)
    finally:
        child.stop()


def test_an_early_end_is_reported_with_what_it_said() -> None:
    child = Child(["sh", "-c", "echo first >&2; echo the reason >&2; exit 3"])
    try:
        with pytest.raises(ChildFailedError, match="sh ended too early: first; the reason"):
            child.expect("ready", HANGS_S)
    finally:
        child.stop()


def test_a_wrong_word_is_an_error() -> None:
    child = Child(["sh", "-c", "echo other; exec sleep 3600"])
    try:
        with pytest.raises(ChildFailedError, match="'ready' was expected"):
            child.expect("ready", HANGS_S)
    finally:
        child.stop()


def test_a_missing_program_is_an_error() -> None:
    child = Child(["/nonexistent/program"])
    try:
        with pytest.raises(ChildFailedError, match="program"):
            child.expect("ready", HANGS_S)
    finally:
        child.stop()


def test_a_stopped_child_ends_too() -> None:
    child = Child(["sh", "-c", "echo ready; exec sleep 3600"])
    child.expect("ready", HANGS_S)
    os.kill(child.pid, signal.SIGSTOP)
    child.stop()
    assert gone(child.pid)


def test_it_dies_with_its_parent() -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent("""
                import time
                from lab.child import Child
                child = Child(["sh", "-c", "echo ready; exec sleep 3600"])
                child.expect("ready", 400)
                print(child.pid, flush=True)
                time.sleep(3600)
            """),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    assert gone(pid)


def test_its_own_network_has_only_its_own_devices(root_user: None) -> None:
    child = Child(["sh", "-c", "echo ready; exec sleep 3600"], own_network=True)
    try:
        child.expect("ready", HANGS_S)
        child.in_network(["ip", "link", "add", "kd-left", "type", "veth"])
        devices = Path(f"/proc/{child.pid}/net/dev").read_text()
        assert "kd-left" in devices
        assert "kd-left" not in Path("/proc/self/net/dev").read_text()
        with pytest.raises(ChildFailedError, match="ip link delete kd-none"):
            child.in_network(["ip", "link", "delete", "kd-none"])
    finally:
        child.stop()
