"""The pcapng writer: its blocks, its file's mode, its failures."""

import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import OutputError
from kernel_delay.openvswitch.packets import ENHANCED_PACKET, SECTION_HEADER, PcapngWriter


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        kind, length = struct.unpack_from("=II", data)
        assert length % 4 == 0
        assert struct.unpack_from("=I", data, length - 4) == (length,)
        yield kind, data[8 : length - 4]
        data = data[length:]


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "packets"
    path.touch(0o666)
    path.chmod(0o666)
    path.write_bytes(b"what was there before")
    PcapngWriter(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [kind for kind, _ in blocks(path.read_bytes())] == [SECTION_HEADER]


def test_each_packet_is_in_the_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "packets"
    with PcapngWriter(path) as writer:
        for number in range(3):
            writer.write_packet(number, "eth0", b"abc", 3)
            kinds = [kind for kind, _ in blocks(path.read_bytes())]
            assert kinds.count(ENHANCED_PACKET) == number + 1


@pytest.mark.parametrize("where", ["missing/packets", "."])
def test_a_file_that_can_not_be_made_is_said(tmp_path: Path, where: str) -> None:
    with pytest.raises(OutputError, match="can't write"):
        PcapngWriter(tmp_path / where)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    (tmp_path / "packets").symlink_to(target)
    with pytest.raises(OutputError):
        PcapngWriter(tmp_path / "packets")
    assert target.read_text() == "kept"


def test_a_run_that_fails_keeps_earlier_packets(tmp_path: Path) -> None:
    path = tmp_path / "packets"
    path.write_bytes(b"of an earlier run")
    with pytest.raises(RuntimeError), PcapngWriter(path):
        raise RuntimeError
    assert path.read_bytes() == b"of an earlier run"


def test_a_run_without_packets_replaces_earlier_ones(tmp_path: Path) -> None:
    path, empty = tmp_path / "packets", tmp_path / "empty"
    path.write_bytes(b"of an earlier run, which was longer than a header is" * 4)
    for each in (path, empty):
        PcapngWriter(each).close()
    assert path.read_bytes() == empty.read_bytes()


def test_full_disk_is_an_error_and_device_mode_stays() -> None:
    mode = Path("/dev/full").stat().st_mode
    with pytest.raises(OutputError, match="No space left on device"):
        PcapngWriter(Path("/dev/full"))
    assert Path("/dev/full").stat().st_mode == mode


# About as long as an option can be, of characters of one to four bytes.
long_comments = st.tuples(st.sampled_from("aé€\U0001f600"), st.text(max_size=3)).map(
    lambda parts: parts[1] + parts[0] * (65536 // len(parts[0].encode()) + 1)
)

CUT = """
import resource, signal, sys
from pathlib import Path
from kernel_delay.errors import OutputError
from kernel_delay.openvswitch.packets import PcapngWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
writer = PcapngWriter(Path(sys.argv[1]))
try:
    writer.write_packet(0, "eth0", bytes(300), 300)
except OutputError as error:
    print(error)
"""


def test_a_block_the_kernel_cuts_is_said(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", CUT, tmp_path / "packets"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "can't write" in result.stdout


@given(
    comment=st.text() | long_comments,
    interface=st.text(max_size=100),
    packet=st.binary(max_size=100),
    size=st.integers(0, 70000),
    time_ns=st.integers(0, (1 << 64) - 1),
)
def test_anything_makes_whole_blocks(
    tmp_path_factory: pytest.TempPathFactory,
    comment: str,
    interface: str,
    packet: bytes,
    size: int,
    time_ns: int,
) -> None:
    path = tmp_path_factory.mktemp("any") / "packets"
    with PcapngWriter(path) as writer:
        writer.write_packet(time_ns, interface, packet, size, [comment])
    body = dict(blocks(path.read_bytes()))[ENHANCED_PACKET]
    number, high, low, captured, length = struct.unpack_from("=IIIII", body)
    assert (number, high << 32 | low, captured) == (0, time_ns, len(packet))
    assert length == max(size, len(packet))
    assert body[20 : 20 + captured] == packet
    option, option_len = struct.unpack_from("=HH", body, 20 + (captured + 3 & ~3))
    assert option == 1
    start = 24 + (captured + 3 & ~3)
    text = body[start : start + option_len].decode()
    escaped = comment.encode(errors="backslashreplace").decode()
    assert escaped.startswith(text)
    assert text == escaped or option_len > 0xFFFF - 4
