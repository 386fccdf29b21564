"""Packets as scapy shows them, and without scapy."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import UnavailableError
from kernel_delay.openvswitch.packets import packet_decoder

UDP = bytes.fromhex(
    "00000200000000000100000008004500002100010000401177cc010000000200000000350036000d00001b5b324a0a"
)


def test_a_packet_is_shown_by_its_layers() -> None:
    lines = [line.strip() for line in packet_decoder()(UDP)]
    assert [line for line in lines if line.startswith("###")] == [
        "###[ Ethernet ]###",
        "###[ IP ]###",
        "###[ UDP ]###",
        "###[ Raw ]###",
    ]
    assert "dst       = 00:00:02:00:00:00" in lines
    assert "src       = 1.0.0.0" in lines


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda tail: UDP[:23] + tail))
def test_any_bytes_are_shown_in_printable_lines(packet: bytes) -> None:
    lines = packet_decoder()(packet)
    assert lines
    assert all(line.isprintable() for line in lines)


def test_without_scapy_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scapy.layers.all", None)
    with pytest.raises(UnavailableError) as caught:
        packet_decoder()
    assert f"{sys.executable} -m pip install scapy" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_make_installs_scapy(project: Path) -> None:
    # As if nothing was installed yet; nothing is.
    command = ["make", "--dry-run", "--what-if=pyproject.toml", "build"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert "setup/python_packages.py packets >" in done.stdout


def test_scapy_is_loaded_only_when_it_is_needed() -> None:
    program = "import sys, kernel_delay.openvswitch.packets; print('scapy' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
