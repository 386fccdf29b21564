"""The text of upcall-monitor, whatever the bytes in it."""

import struct
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.monitors.upcalls.events import DpUpcall, PortName, PortNames, RecvUpcall
from kernel_delay.monitors.upcalls.monitor_report import (
    HEADER,
    Show,
    comment,
    json_of,
    key_comments,
    port_number,
    summary,
    upcall_lines,
)
from kernel_delay.openvswitch.packets import hex_lines

WHERE: dict[str, Any] = {"cpu": 21, "tid": 411906, "time_ns": 685_799_566_914_183}
KEY = struct.pack("=HHIHHI", 8, 20, 0, 8, 3, 2)
RECEIVED = RecvUpcall(
    **WHERE,
    comm="handler15",
    datapath="system@ovs-system",
    kind="miss",
    packet=bytes(range(60)),
    packet_len=98,
    key=KEY,
    key_len=132,
)
DROPPED = DpUpcall(
    **WHERE,
    comm="swapper/21",
    datapath="ovs-system",
    device="eth0",
    kind="action",
    packet=bytes(14),
    packet_len=1500,
    linear_len=14,
    in_port=3,
    error=11,
)


def test_an_upcall_is_a_line_under_the_header() -> None:
    (line,) = upcall_lines(RECEIVED, "eth1", 1, Show())
    assert line == (
        "685799.566914183   [021] handler15            411906 system@ovs-system    eth1"
        "             miss        98     132 ok"
    )
    assert line.index("system@") == HEADER.index("DPIF_NAME")
    assert line.index("eth1") == HEADER.index("PORT")
    assert line.index("ok") == HEADER.index("RESULT")


def test_a_dropped_one_has_its_error_and_no_key() -> None:
    (line,) = upcall_lines(DROPPED, "eth0", 1, Show(key="decode"))
    assert "system@ovs-system" in line
    assert line.endswith("action    1500       - EAGAIN (Resource temporarily unavailable)")


def test_keys_and_packets_are_below_their_upcall() -> None:
    lines = upcall_lines(RECEIVED, "eth1", 7, Show(hex_lines, "nlraw"))
    assert lines[1] == "  Flow key size 132 bytes, size captured 16 bytes."
    assert "OVS_KEY_ATTR_IN_PORT[3], data: 02 00 00 00" in lines[3]
    assert lines[5] == "7: Receive dp_port 2, packet size 98 bytes, size captured 60 bytes."
    assert lines[6].startswith("0000  00 01 02 03")
    assert "in_port(2)" in upcall_lines(RECEIVED, "eth1", 1, Show(key="decode"))[2]


def test_json_has_key_text_and_packet_in_hex() -> None:
    received = json_of(RECEIVED, "eth1")
    assert (received["result"], received["port"], received["in_port"]) == ("ok", "eth1", 2)
    assert received["key"] == "recirc_id(0),in_port(2),<16 of 132 bytes captured>"
    assert (received["packet_len"], received["packet"]) == (98, bytes(range(60)).hex())
    dropped = json_of(DROPPED, "eth0")
    assert (dropped["datapath"], dropped["result"]) == ("system@ovs-system", "EAGAIN")
    assert (dropped["key"], dropped["key_len"]) == (None, None)


def test_shown_keys_are_separate_packet_comments() -> None:
    assert key_comments(RECEIVED, "none") == []
    assert key_comments(DROPPED, "decode") == []
    (found,) = key_comments(RECEIVED, "nlraw")
    lines = upcall_lines(RECEIVED, "eth1", 7, Show(None, "nlraw"))
    assert found.splitlines() == [line.strip() for line in lines[2:]]


def test_comment_has_the_origin_and_result_of_a_packet() -> None:
    assert comment(DROPPED, "eth0") == (
        "cpu 21, swapper/21 (411906), system@ovs-system, port 3 (eth0), action, EAGAIN"
    )


def test_the_summary_counts_drops_by_their_error() -> None:
    dropped = Counter({"ENOBUFS": 1, "EAGAIN": 2})
    assert summary(5, dropped, 0) == (
        "5 upcalls received, 3 dropped by the kernel (EAGAIN 2, ENOBUFS 1)"
    )
    assert "4 events missed" in summary(5, Counter(), 4)


def test_port_has_its_newest_name_in_its_datapath() -> None:
    names = PortNames()
    names.learn(PortName("ovs-system", 2, "eth1"))
    names.learn(PortName("other", 2, "tap0"))
    assert names.name("system@ovs-system", 2) == "eth1"
    names.learn(PortName("ovs-system", 2, "eth2"))
    assert names.name("ovs-system", 2) == "eth2"
    assert names.name("ovs-system", 3) == "3"
    assert names.name("ovs-system", None) == "-"


@given(comm=st.text(), datapath=st.text(), port=st.text(), key=st.binary(), packet=st.binary())
def test_whatever_is_in_an_upcall_can_be_printed(
    comm: str, datapath: str, port: str, key: bytes, packet: bytes
) -> None:
    upcall = RecvUpcall(
        **WHERE,
        comm=comm,
        datapath=datapath,
        kind="miss",
        packet=packet,
        packet_len=len(packet),
        key=key,
        key_len=len(key),
    )
    for how in ("hex", "nlraw", "decode"):
        lines = upcall_lines(upcall, port, 1, Show(hex_lines, how))
        assert all(line.isprintable() for line in lines)
    assert comment(upcall, port).isprintable()
    assert port_number(upcall) is None or f"dp_port {port_number(upcall)}," in "".join(lines)
