"""Stages whose names do not give their causes away."""

from pathlib import Path

import pytest

from tests.verdicts.names import SALT, shown_name
from tests.verdicts.staging import Process, hog, running, workload


def shown(process: Process) -> tuple[str, str]:
    """The name of a process, and its command line."""
    folder = Path(f"/proc/{process.pid}")
    return (folder / "comm").read_text().strip(), (folder / "cmdline").read_text()


def test_names_are_shown_as_they_are() -> None:
    with running(hog, name="hog") as process:
        name, command_line = shown(process)
    assert name == shown_name("hog") == "hog"
    assert "hog" in command_line


def test_hidden_names_depend_on_the_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT, "a")
    first = shown_name("hog")
    monkeypatch.setenv(SALT, "b")
    assert shown_name("hog") != first


def test_hidden_process_has_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT, "a")
    with running(hog, name="hog") as process:
        name, command_line = shown(process)
    assert name == shown_name("hog") != "hog"
    assert "hog" not in command_line


def test_c_workload_hides_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT, "a")
    with workload("contended", "mutex", "sleep", 20_000) as process:
        name, command_line = shown(process)
        owner = Path(f"/proc/{process.pid}/task/{process.reported['owner']}/comm").read_text()
    assert name == shown_name("victim")
    assert owner.strip() == shown_name("owner")
    assert "contended" not in command_line
    assert "mutex" not in command_line
