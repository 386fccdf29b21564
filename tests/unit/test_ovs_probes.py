"""Which version of Open vSwitch has a probe that a process lacks."""

import shutil
from pathlib import Path

import pytest

from kernel_delay.errors import NoInputError
from kernel_delay.monitors.flows import probe as flow_probe
from kernel_delay.monitors.revalidator import probe as revalidator_probe
from kernel_delay.monitors.upcalls import probe as upcall_probe
from kernel_delay.openvswitch.functions import MAIN_LOOP, REVALIDATORS
from kernel_delay.openvswitch.probes import FIRST_VERSIONS, files_with
from kernel_delay.probes import user
from kernel_delay.probes.objects import file_object
from kernel_delay.probes.triggers import UsdtTrigger

START_DUMP = UsdtTrigger("udpif_revalidator", "start_dump")


@pytest.fixture(autouse=True)
def _kernel_with_uprobes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user, "UPROBE_PMU", tmp_path)


def refusal(program: Path) -> str:
    with pytest.raises(NoInputError) as raised:
        files_with(START_DUMP, [file_object(program)])
    return str(raised.value)


def program_with(content: bytes, path: Path) -> Path:
    """A program without any probe, whose file has these bytes too."""
    shutil.copy("/bin/true", path)
    with path.open("ab") as file:
        file.write(content)
    return path


def test_refusal_names_the_version_and_build_option_once(tmp_path: Path) -> None:
    end = "(Open vSwitch has it from 3.2 on, built with --enable-usdt-probes)"
    assert refusal(program_with(b"", tmp_path / "other")).endswith(end)
    of_ovs = refusal(program_with(b"", tmp_path / "ovs-vswitchd"))
    assert of_ovs.endswith("built with --enable-usdt-probes (Open vSwitch has it from 3.2 on)")
    assert of_ovs.count("--enable-usdt-probes") == 1


@pytest.mark.parametrize(
    ("version", "reported"), [("3.1.0", "; this is 3.1)"), ("3.2.0", "on)"), ("10.0.0", "on)")]
)
def test_an_older_version_is_reported(tmp_path: Path, version: str, reported: str) -> None:
    content = b"(Open vSwitch) " + version.encode()
    assert refusal(program_with(content, tmp_path / "ovs-vswitchd")).endswith(reported)


def test_each_probe_that_is_followed_has_a_version() -> None:
    followed = {
        *MAIN_LOOP.probes.values(),
        *flow_probe.PROBES.values(),
        *REVALIDATORS.probes.values(),
        *revalidator_probe.FLOW_PROBES.values(),
        *upcall_probe.USDT_PROBES.values(),
    }
    assert followed == FIRST_VERSIONS.keys()
