"""What is registered is there, and is imported where it is used alone."""

from pathlib import Path

import pytest

from kernel_delay.monitors.monitor import Monitor, monitor
from kernel_delay.recording.records import Events, record_type, record_types
from kernel_delay.register import MONITORS
from tests.structure import modules_of_a_report, of_open_vswitch


@pytest.mark.parametrize("name", MONITORS)
def test_each_command_has_a_monitor_of_its_name(name: str) -> None:
    found = monitor(name)
    assert isinstance(found, Monitor)
    assert found.command == name
    assert issubclass(record_type(name), Events)


def test_each_folder_is_registered(project: Path) -> None:
    folders = (project / "src" / "kernel_delay" / "monitors").glob("*/__init__.py")
    assert {path.parent.name for path in folders} == {each.folder for each in MONITORS.values()}


def test_each_kind_of_record_has_its_own_tag() -> None:
    tags = [kind.__struct_config__.tag for kind in record_types()]
    assert len(set(tags)) == len(tags) == len({each.folder for each in MONITORS.values()})


def test_report_of_a_capture_imports_nothing_of_open_vswitch() -> None:
    modules = modules_of_a_report()
    assert "kernel_delay.reporters.text" in modules
    assert of_open_vswitch(modules) == 0
