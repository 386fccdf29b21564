"""The pcapng file through readers that are not ours: tshark, capinfos and scapy."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernel_delay.openvswitch.packets import PcapngWriter
from tests.needs import needed

TIME_NS = 1_700_000_000_123_456_789

Packet = tuple[int, str, bytes, int, str]

# A wire length of 0 and a comment tshark would print as several fields are
# what the readers, not the file, make hard to compare.
packets = st.lists(
    st.tuples(
        st.integers(0, 1 << 62),
        st.sampled_from(["eth0", "vnet1", "ovs-système"]),
        st.binary(min_size=1, max_size=120),
        st.integers(1, 65535),
        st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1),
    ),
    min_size=1,
    max_size=8,
)


def write(path: Path, found: list[Packet]) -> None:
    with PcapngWriter(path) as writer:
        for time_ns, interface, packet, size, comment in found:
            writer.write_packet(time_ns, interface, packet, size, [comment])


def tshark(path: Path) -> list[Packet]:
    # As no user of the machine: its preferences must not decide.
    environment = {**os.environ, "HOME": os.fspath(path.parent)}
    result = subprocess.run(
        [needed("tshark"), "-n", "-r", path, "-T", "json", "-x"],
        capture_output=True,
        check=True,
        env=environment,
    )
    found = []
    for entry in json.loads(result.stdout, object_pairs_hook=list):
        layers = dict(dict(dict(entry)["_source"])["layers"])
        frame = dict(layers["frame"])
        interface = dict(frame["frame.interface_id_tree"])["frame.interface_name"]
        seconds, _, fraction = frame["frame.time_epoch"].partition(".")
        comment = dict(layers["pkt_comment"])["frame.comment"]
        found.append(
            (
                int(seconds) * 10**9 + int(fraction.ljust(9, "0")),
                interface,
                bytes.fromhex(layers["frame_raw"][0]),
                int(frame["frame.len"]),
                comment,
            )
        )
    return found


@pytest.mark.long
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(found=packets)
def test_tshark_reads_every_packet_back(
    tmp_path_factory: pytest.TempPathFactory, found: list[Packet]
) -> None:
    path = tmp_path_factory.mktemp("tshark") / "packets.pcapng"
    write(path, found)
    assert tshark(path) == [
        (time_ns, interface, packet, max(size, len(packet)), comment)
        for time_ns, interface, packet, size, comment in found
    ]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=packets)
def test_scapy_reads_every_packet_back(
    tmp_path_factory: pytest.TempPathFactory, found: list[Packet]
) -> None:
    from scapy.utils import RawPcapNgReader

    def fields(packet: bytes, metadata: Any) -> tuple[object, ...]:
        """What scapy read; its annotations of the metadata are an older format's."""
        time_ns = metadata.tshigh << 32 | metadata.tslow
        comment = metadata.comments[0].decode()
        return time_ns, metadata.ifname.decode(), packet, metadata.wirelen, comment

    path = tmp_path_factory.mktemp("scapy") / "packets.pcapng"
    write(path, found)
    with RawPcapNgReader(os.fspath(path)) as reader:
        read = [fields(packet, metadata) for packet, metadata in reader]
    assert read == [
        (time_ns, interface, packet, max(size, len(packet)), comment)
        for time_ns, interface, packet, size, comment in found
    ]


ENDLESS = """
import sys
from pathlib import Path
from kernel_delay.openvswitch.packets import PcapngWriter
writer = PcapngWriter(Path(sys.argv[1]))
number = 0
while True:
    number += 1
    writer.write_packet(number, "eth0", number.to_bytes(64), 64, [f"packet {number}"])
    print(number, flush=True)
"""


def test_killed_writer_loses_at_most_the_current_packet(tmp_path: Path) -> None:
    path = tmp_path / "packets.pcapng"
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, path], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(200):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    reported = 200 + len(writer.stdout.read().split())
    assert writer.wait() == -signal.SIGKILL
    read = tshark(path)
    assert [packet for _, _, packet, _, _ in read] == [
        number.to_bytes(64) for number in range(1, len(read) + 1)
    ]
    assert len(read) >= reported
