"""What is made of the kernel's operations, and what is said of them."""

import errno
import struct
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.monitors.datapath_ops.actions import format_actions
from kernel_delay.monitors.datapath_ops.events import OPERATIONS, OperationEvent
from kernel_delay.monitors.datapath_ops.message import read_request
from kernel_delay.monitors.datapath_ops.probe import Joining
from kernel_delay.monitors.datapath_ops.report import (
    HEADER,
    OperationReport,
    Summary,
    event_lines,
    json_of,
)
from kernel_delay.openvswitch._ovs_records import ffi, lib
from tests.unit.test_flow_match import KEY, MASK, WRITTEN
from tests.unit.test_flows import UFID

NLM_F_REQUEST, NLM_F_ACK, NLM_F_ECHO, NLM_F_CREATE = 1, 4, 8, 0x400


def attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def u32(value: int) -> bytes:
    return struct.pack("=I", value)


def message(attributes: bytes, flags: int = NLM_F_REQUEST | NLM_F_ACK) -> bytes:
    """A request of the datapath with interface index 7."""
    generic = struct.pack("=BBHi", 1, 1, 0, 7)
    return struct.pack("=IHHII", 24 + len(attributes), 33, flags, 1234, 99) + generic + attributes


UFID_BYTES = struct.pack("=4I", 0x5BACFCA9, 0xFE5F4DEA, 0xAD007BE5, 0x6E56BCDE)
ACTIONS = attribute(4, struct.pack("!HH", 0x8100, 0x1005)) + attribute(1, u32(2))
NEW = message(
    attribute(1, KEY) + attribute(9, UFID_BYTES) + attribute(7, MASK) + attribute(2, ACTIONS),
    NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE,
)
EVENT = OperationEvent(
    time_ns=12_345_678_901_234,
    cpu=1,
    tid=17,
    comm="handler3",
    operation="flow_new",
    duration_ns=4_500,
    error=0,
    message=NEW,
    message_len=len(NEW),
)
EXECUTE = message(
    attribute(1, bytes(60)) + attribute(2, KEY) + attribute(3, ACTIONS) + attribute(9, b"\xdc\x05")
)


def lines_of(event: OperationEvent) -> list[str]:
    return event_lines(event, read_request(event.operation, event.message, event.message_len))


def test_operation_has_a_line_and_its_request() -> None:
    first, *others = lines_of(EVENT)
    assert len(HEADER) == len(first) <= 80
    assert first.split() == ["12345.678901", "handler3", "17", "flow_new", "ok", "4.5"]
    assert others == [
        f"    datapath 7, ack|create, ufid {UFID}",
        f"    match: {WRITTEN}",
        "    actions: push_vlan(vid=5,pcp=0),2",
    ]


def test_an_answer_is_an_error_by_its_name() -> None:
    for number, name in ((errno.EEXIST, "EEXIST"), (errno.ENOENT, "ENOENT"), (4000, "errno 4000")):
        assert name in lines_of(structs.replace(EVENT, error=number))[0]
    (line, *_) = lines_of(structs.replace(EVENT, duration_ns=None))
    assert line.endswith(" -")


def test_an_execution_has_a_packet() -> None:
    event = structs.replace(
        EVENT, operation="packet_execute", message=EXECUTE, message_len=len(EXECUTE)
    )
    _, where, match, actions, packet = lines_of(event)
    assert where == "    datapath 7, ack, mru(1500)"
    assert match.startswith("    match: recirc_id(0),in_port(2),ct_mark(0x7),eth(src=")
    assert (actions, packet) == (
        "    actions: push_vlan(vid=5,pcp=0),2",
        "    packet of 60 bytes: eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:00),eth_type(0x0000)",
    )


def test_a_message_that_was_cut_says_where() -> None:
    request = read_request("flow_new", NEW[:60], len(NEW))
    assert request.key == KEY[:32]
    assert request.problem == f"36 of {len(NEW) - 24} bytes captured"
    assert read_request("flow_new", NEW[:10], len(NEW)).problem == "it has no header"
    unknown = message(attribute(77, b"\x01") + attribute(10, u32(7)) + attribute(8, b""))
    assert read_request("flow_get", unknown, len(unknown)).others == (
        *("attribute77(01)", "ufid_flags(omit_key|omit_mask|omit_actions)", "probe"),
    )


@given(st.binary(max_size=300), st.sampled_from(OPERATIONS))
def test_any_bytes_are_reported(data: bytes, operation: Any) -> None:
    event = structs.replace(EVENT, operation=operation, message=data, message_len=len(data) + 3)
    assert all(line.isprintable() for line in lines_of(event))
    assert format_actions(data).isprintable()
    event = structs.replace(EVENT, reply=data, reply_len=len(data) + 3)
    assert all(line.isprintable() for line in lines_of(event))


# What ovs-dpctl of Open vSwitch 3.1 can't print; the others are in test_actions_oracle.py.
@pytest.mark.parametrize(
    ("actions", "written"),
    [
        (b"", "drop"),
        (attribute(24, u32(5)), "drop(5)"),
        (attribute(23, attribute(1, attribute(1, u32(4)))), "dec_ttl(le_1(4))"),
        (
            attribute(25, attribute(1, u32(9)) + attribute(2, b"\x0a\x0b")),
            "psample(group=9,cookie=0x0a0b)",
        ),
        # What is nested in none of the known ways is told too.
        (
            attribute(25, attribute(1, b"\x01") + attribute(7, b"")),
            "psample(attribute1(01),attribute7())",
        ),
        (attribute(12, attribute(2, u32(5))), "ct(attribute2(05 00 00 00))"),
        (
            attribute(12, attribute(6, attribute(1, b"") + attribute(44, b"\x02"))),
            "ct(nat(src,attribute44(02)))",
        ),
        (
            attribute(2, attribute(1, u32(7)) + attribute(8, b"\x01")),
            "userspace(pid=7,attribute8(01))",
        ),
        (
            attribute(6, attribute(1, u32(0)) + attribute(2, b"") + b"\x01"),
            "sample(sample=0.0%,actions(drop),<1 bytes left over, too few for a header>)",
        ),
        (attribute(17, b"\x01\x02"), "push_nsh(<01 02>)"),
        (attribute(11, attribute(28, attribute(1, b"\x01"))), "set(nsh(key1(01)))"),
        (attribute(77, b"\x01\x02"), "action77(01 02)"),
        (attribute(1, b"\x01\x02"), "output(<length 2, not 4: 01 02>)"),
        (attribute(12, attribute(8, u32(6))), "ct(eventmask=0x6)"),
        (attribute(8, struct.pack("=II", 9, 3)), "hash(<algorithm 9>(3))"),
        (attribute(2, b""), "userspace(<>)"),
        (attribute(12, attribute(5, b"f\x1b[p\0")), r"ct(helper=f\x1b[p)"),
        (b"\x03\x00\x01\x00", "<nla_len 3 is less than its own header: 03 00 01 00>"),
    ],
)
def test_actions_are_written(actions: bytes, written: str) -> None:
    assert format_actions(actions) == written


def test_nesting_without_end_has_one() -> None:
    actions = attribute(1, u32(1))
    for _ in range(200):
        actions = attribute(20, actions)
    assert "nested deeper than 16" in format_actions(actions)


def test_the_summary_counts_answers_and_times() -> None:
    summary = Summary()
    for event in (
        EVENT,
        structs.replace(EVENT, duration_ns=9_500, error=errno.EEXIST),
        structs.replace(EVENT, operation="flow_del", duration_ns=None, error=errno.ENOENT),
    ):
        summary.take(event)
    text = summary.render(passed_over=4)
    lines = text.splitlines()
    assert lines[1].split() == ["flow_new", "2", "1", "4.5", "9.5", "9.5"]
    assert lines[2] == "  EEXIST 1 (File exists)"
    assert lines[3].split() == ["flow_del", "1", "1", "-", "-", "-"]
    assert lines[4] == "  ENOENT 1 (No such file or directory)"
    assert lines[5] == "4 operations that were not asked for are not among them"
    assert max(map(len, lines)) <= 80
    assert Summary().render(0) == "no operation was seen"
    assert OperationReport.missed_lines({"operations": 0}) == []
    assert OperationReport.missed_lines({"operations": 2, "replies": 1}) == [
        "2 operations were lost: a larger --buffer-page-count helps",
        "1 messages that were sent back were lost: a larger --buffer-page-count helps",
    ]


def test_the_json_has_the_request_in_words() -> None:
    found = json_of(EVENT, read_request("flow_new", NEW, len(NEW)))
    assert found["match"] == WRITTEN
    assert found["actions"] == "push_vlan(vid=5,pcp=0),2"
    assert (found["answer"], found["ufid"], found["dp_ifindex"]) == ("ok", UFID, 7)
    assert "message" not in found


def record_of(operation: int, error: int, entered_ns: int, end_ns: int, tid: int = 17) -> bytes:
    size = ffi.sizeof("struct operation_event")
    data = bytearray(size + lib.SMALL_MESSAGE)
    record = ffi.from_buffer("struct operation_event *", data)
    record.event.type, record.event.tid = lib.EVENT_OPERATION, tid
    record.event.time_ns, record.entered_ns = end_ns, entered_ns
    record.operation, record.error = operation, error
    record.message_len, record.message_size = len(NEW) + 1, len(NEW)
    data[size : size + len(NEW)] = NEW
    return bytes(data)


def reply_of(time_ns: int, tid: int = 17, sequence: int = 1234) -> bytes:
    size = ffi.sizeof("struct reply_event")
    data = bytearray(size + lib.SMALL_MESSAGE)
    record = ffi.from_buffer("struct reply_event *", data)
    record.event.type, record.event.tid = lib.EVENT_REPLY, tid
    record.event.time_ns = time_ns
    record.message_len = record.message_size = len(REPLY)
    data[size : size + len(REPLY)] = REPLY
    struct.pack_into("=I", data, size + 8, sequence)
    return bytes(data)


def test_a_record_is_an_operation() -> None:
    (event,) = Joining().operations([record_of(lib.OPERATION_FLOW_DEL, errno.ENOENT, 1000, 1500)])
    assert (event.operation, event.error, event.duration_ns) == ("flow_del", errno.ENOENT, 500)
    assert (event.message, event.is_cut, event.reply_len) == (NEW, True, 0)
    (event,) = Joining().operations([record_of(lib.OPERATION_FLOW_DEL, 0, 0, 1500)])
    assert event.duration_ns is None


def echoing(error: int, entered_ns: int, end_ns: int) -> bytes:
    """The record of an operation that asks for an echo."""
    data = bytearray(record_of(lib.OPERATION_FLOW_NEW, error, entered_ns, end_ns))
    at = ffi.sizeof("struct operation_event") + 6
    (flags,) = struct.unpack_from("=H", data, at)
    struct.pack_into("=H", data, at, flags | 0x8)
    return bytes(data)


def test_only_a_missing_reply_to_an_echo_is_counted() -> None:
    joining = Joining()
    records = [reply_of(1100), echoing(0, 1000, 1500), echoing(errno.EEXIST, 1600, 1700)]
    assert [bool(event.reply) for event in joining.operations(records)] == [True, False]
    assert joining.without_reply == 0
    list(joining.operations([echoing(0, 2000, 2500)]))
    assert joining.without_reply == 1


def test_reply_belongs_to_the_operation_of_its_thread() -> None:
    new = partial(record_of, lib.OPERATION_FLOW_NEW, 0)
    joining = Joining()
    records = [reply_of(1100), reply_of(1200, tid=18), new(1000, 1500), new(1600, 1700)]
    assert [event.reply for event in joining.operations(records)] == [REPLY, b""]
    # The end of the other thread's operation was lost; this is its next.
    assert [event.reply for event in joining.operations([new(2000, 2500, tid=18)])] == [b""]
    # Nor is it known from the time where the begin of the next was missed.
    records = [reply_of(2600, sequence=1233), new(0, 2700), reply_of(2800), new(0, 2900)]
    assert [event.reply for event in joining.operations(records)] == [b"", REPLY]


USED_MS = EVENT.time_ns // 1_000_000 - 120
REPLY = message(
    attribute(9, UFID_BYTES)
    + attribute(3, struct.pack("=2Q", 2, 120))
    + attribute(4, b"\x12")
    + attribute(5, struct.pack("=Q", USED_MS))
    + attribute(2, ACTIONS)
)


def test_reply_is_formatted_as_dump_flows_does() -> None:
    event = structs.replace(EVENT, reply=REPLY, reply_len=len(REPLY))
    assert lines_of(event)[4:] == [
        f"    sent back, ufid {UFID}, packets:2, bytes:120, used:0.120s, flags:S.",
        "        actions: push_vlan(vid=5,pcp=0),2",
    ]
    found: Any = json_of(event, read_request("flow_new", NEW, len(NEW)))["reply"]
    assert (found["packets"], found["bytes"], found["idle_ms"]) == (2, 120, 120)
    assert (found["ufid"], found["tcp_flags"], found["match"]) == (UFID, 0x12, None)
    # One that no packet hit, with its key; and what is cut or of another length.
    reply = message(attribute(1, KEY) + attribute(7, MASK) + attribute(5, b"\x01"))
    event = structs.replace(EVENT, reply=reply[:-4], reply_len=len(reply))
    first, match, problem = lines_of(event)[4:]
    assert first == "    sent back, packets:0, bytes:0, used:never, used( ...)"
    assert match == f"        match: {WRITTEN}"
    assert problem.endswith("bytes captured>")
