"""Counters of losses, as Linux 6.1 and Open vSwitch 3.1 and 3.5 printed them, and their rules."""

import json
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.analysis.verdict.packet_losses import LOSS_RULES
from kernel_delay.errors import UnavailableError
from kernel_delay.model import (
    ConntrackLosses,
    DatapathLosses,
    Finding,
    FlowLimit,
    PacketLosses,
    PmdStats,
    PortLosses,
    PortOverrun,
    Sample,
    Sleep,
    SleepFile,
    SocketOverrun,
    Target,
    Thread,
    UpcallStats,
)
from kernel_delay.openvswitch import losses as counters_module
from kernel_delay.openvswitch import unixctl as unixctl_module
from kernel_delay.openvswitch.losses import COVERAGE, UPCALLS, USERSPACE, LossReading
from kernel_delay.openvswitch.losses.answers import parse_datapath, parse_events, parse_limits
from kernel_delay.openvswitch.losses.datapaths import (
    DatapathCounters,
    PortCounters,
    read_datapath,
    read_port,
)
from kernel_delay.openvswitch.losses.difference import (
    losses,
    own_losses,
    with_devices,
    with_readers,
)
from kernel_delay.openvswitch.losses.packet_sockets import (
    WRAPS_AT,
    PacketSocket,
    PacketSockets,
    read_socket,
)
from kernel_delay.openvswitch.losses.tables import (
    Conntrack,
    NetlinkSocket,
    parse_conntrack,
    parse_netlink,
)
from kernel_delay.openvswitch.unixctl import Answers, Unixctl
from kernel_delay.reporters import text
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window
from tests.workload import HANGS_S

# include/uapi/linux/if_ether.h has no such protocol: nobody sends it.
LOCAL_EXPERIMENTAL = 0x88B5

PID = 147

# Linux 6.1, Open vSwitch 3.5 on its kernel datapath: 50 packets without a flow, 2 CPUs.
DATAPATH = bytes.fromhex(
    "03020000040000000f0001006f76732d73797374656d00002400030000000000000000003200000000000000"
    "0000000000000000320000000000000024000400000000000000000001000000000000000000000000000000"
    "0000000000000000080005000900000008000700000100000c0008006d7f53a2eca5b8af"
)
PORT = bytes.fromhex(
    "0301000004000000080001000200000008000200010000000c0003006b642d706f7274000800080003000000"
    "4400060032000000000000000000000000000000b80b00000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000000000000000800050000000000"
)
INTERNAL = bytes.fromhex(
    "03010000040000000800010001000000080002000200000008000300627230000800080005000000440006"
    "00" + "00" * 64 + "0800050000000000"
)

NETLINK = """\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
000000004e08f593 0   3599925727 00000911 0        0        0     2        0        10966
000000008c1f531e 12  147        00000000 0        0        0     2        0        388
00000000b73eb584 16  147        00000000 0        0        0     2        0        380
00000000ee4451c9 16  2723381101 00000000 0        0        0     2        28       385
000000001f023d66 16  2948113900 00000000 0        0        0     2        0        386
"""

CONNTRACK_NAMES = (
    "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop"
    " early_drop icmp_error  expect_new expect_create expect_delete search_restart"
)
ZEROS = "00000000 " * 7
CONNTRACK = (
    f"{CONNTRACK_NAMES}\n"
    f"0000000a  {ZEROS} 00000000 00000001 00000010 00000002 00000000  {ZEROS[:36]}\n"
    f"0000000a  {ZEROS} 00000000 00000000 00000020 00000001 00000000  {ZEROS[:36]}\n"
)

# Open vSwitch 3.1 in user space.
SHOWN_UPCALLS = """\
netdev@ovs-netdev:
  flows         : (current 4400) (avg 3415) (max 4820) (limit 8005)
  dump duration : 6ms
  ufid enabled : true

  5: (keys 4466)

"""
SHOWN_COVERAGE = """\
Event coverage, avg rate over last: 5 seconds, last minute, last hour,  hash=c0471a26:
bridge_reconfigure         0.0/sec     0.233/sec        0.0039/sec   total: 14
upcall_flow_limit_hit    153.6/sec    12.800/sec        0.2133/sec   total: 768
upcall_flow_limit_kill    15.4/sec     1.283/sec        0.0214/sec   total: 77
xlate_actions            1013.0/sec   164.967/sec        2.7494/sec   total: 10950
101 events never hit
"""
SHOWN_DATAPATH = """\
netdev@ovs-netdev:
  lookups: hit:11 missed:8312 lost:691
  flows: 4482
  port 1: br0 (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:14 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 2: server
    RX packets:4507 errors:0 dropped:3 overruns:0 frame:0
    TX packets:4514 errors:0 dropped:? aborted:0 carrier:0
    collisions:0
    RX bytes:243730 (238.0 KiB)  TX bytes:244112 (238.4 KiB)
"""


def test_a_datapaths_message_has_counters_and_handlers() -> None:
    found = read_datapath(DATAPATH, ())
    assert found == DatapathCounters("system@ovs-system", 50, 0, (), (2723381101, 2948113900))


def test_a_cpu_without_a_handler_shares_anothers() -> None:
    # The same datapath, with four CPUs and two handlers.
    shared = DATAPATH[:-12] + struct.pack("=HH", 20, 8) + DATAPATH[-8:] * 2
    assert read_datapath(shared, ()).portids == (2723381101, 2948113900)


def test_a_ports_message_has_its_counters() -> None:
    assert read_port(PORT) == PortCounters("kd-port", 50, 0, 0, 0)
    assert read_port(INTERNAL) == PortCounters("br0", 0, 0, 0, 0, is_internal=True)


def test_upcalls_of_a_port_are_counted_since_linux_6_4() -> None:
    # OVS_VPORT_ATTR_UPCALL_STATS: OVS_VPORT_UPCALL_ATTR_SUCCESS, OVS_VPORT_UPCALL_ATTR_FAIL.
    counts = struct.pack("=HHQHHQ", 12, 0, 22, 12, 1, 28)
    message = PORT + struct.pack("=HH", 4 + len(counts), 0x8000 | 10) + counts
    assert read_port(message).failed_upcalls == 28


@pytest.mark.parametrize("size", range(0, len(DATAPATH), 5))
def test_messages_that_are_cut_are_no_error(size: int) -> None:
    read_datapath(DATAPATH[:size], ())
    read_port(PORT[:size])


def test_tables_of_the_kernel_are_read() -> None:
    sockets = parse_netlink(NETLINK + "broken line\n")
    assert len(sockets) == 5
    assert sockets[385] == NetlinkSocket(16, 2723381101, 28, 385)
    assert parse_conntrack(CONNTRACK) == Conntrack(10, 0x30, 3, 1)
    assert parse_conntrack("entries found\n00000000\n") is None
    assert parse_conntrack("") is None


def test_answers_of_open_vswitch_are_read() -> None:
    assert list(parse_limits(SHOWN_UPCALLS)) == [
        FlowLimit("netdev@ovs-netdev", 4400, 8005, None, 6_000_000)
    ]
    assert parse_events(SHOWN_COVERAGE) == {
        "upcall_flow_limit_hit": 768,
        "upcall_flow_limit_kill": 77,
    }
    assert parse_datapath(SHOWN_DATAPATH) == DatapathCounters(
        "netdev@ovs-netdev",
        8312,
        691,
        (
            PortCounters("br0", 0, 0, 0, 14, is_internal=True),
            PortCounters("server", 4507, 4514, 3, 0),
        ),
    )
    assert parse_datapath("") is None


def reading(drops: int, lost: int, dropped: int) -> LossReading:
    found = LossReading()
    found.sockets = parse_netlink(NETLINK.replace("28       385", f"{drops:<8} 385"))
    port = PortCounters("kd-port", 100, 0, dropped, 0)
    internal = PortCounters("br0", 0, 0, dropped, dropped, is_internal=True)
    portids = (2723381101, 2948113900)
    found.datapaths = (DatapathCounters("system@ovs-system", 50, lost, (port, internal), portids),)
    found.conntrack = Conntrack(10, dropped, 0, 0)
    return found


def test_losses_are_the_difference_of_two_readings() -> None:
    before, after = reading(3, 3, 1), reading(28, 28, 8)
    found = with_readers(losses(before, after, 10), after, [11, 12], {385, 386})
    assert found.sockets == (SocketOverrun(385, 2723381101, "GENERIC", 25, 11),)
    assert found.datapaths == (
        DatapathLosses("system@ovs-system", 0, 25, (PortLosses("kd-port", 7, 0, 0),)),
    )
    assert found.conntrack == ConntrackLosses(10, 10, 7, 0, 0)
    assert found.unread == ()


def test_no_handler_is_named_while_they_are_made_anew() -> None:
    before, after = reading(3, 3, 1), reading(28, 28, 8)
    for handlers in ([], [11], [11, 12, 13]):
        (overrun,) = with_readers(losses(before, after, 10), after, handlers, {385}).sockets
        assert overrun.tid is None


def test_sockets_of_other_processes_are_left_out() -> None:
    before, after = reading(3, 3, 1), reading(28, 28, 8)
    assert with_readers(losses(before, after, 10), after, [], {380}).sockets == ()


def test_counters_that_fell_are_no_loss() -> None:
    found = losses(reading(28, 28, 8), reading(3, 3, 1), None)
    assert found.sockets == ()
    assert found.datapaths == (DatapathLosses("system@ovs-system", 0, 0),)


def test_what_could_not_be_read_is_named() -> None:
    before, after = LossReading(), LossReading()
    after.unread["counters of the kernel's datapath"] = "Operation not permitted"
    found = losses(before, after, None)
    assert found.unread == ("counters of the kernel's datapath: Operation not permitted",)
    assert (found.sockets, found.conntrack, found.datapaths) == ((), None, ())


def answers(hits: int, limit: int, drops: int = 0) -> Answers:
    found = Answers()
    coverage = SHOWN_COVERAGE.replace("total: 768", f"total: {hits}")
    coverage += f"datapath_drop_upcall_error 0.0/sec 0.0/sec 0.0/sec   total: {drops}\n"
    found.texts = {
        UPCALLS: SHOWN_UPCALLS.replace("limit 8005", f"limit {limit}"),
        COVERAGE: coverage,
        USERSPACE: SHOWN_DATAPATH.replace("lost:691", f"lost:{691 + hits}"),
    }
    return found


def test_what_open_vswitch_forwarded_without_a_flow_is_not_lost() -> None:
    found = own_losses(PacketLosses(), answers(768, 9000), answers(800, 8005, drops=2))
    assert found.events == {"upcall_flow_limit_hit": 32, "datapath_drop_upcall_error": 2}
    (datapath,) = found.datapaths
    assert (datapath.name, datapath.lost, datapath.without_flow) == ("netdev@ovs-netdev", 2, 30)
    (limit,) = found.flow_limits
    assert (limit.limit_before, limit.limit) == (9000, 8005)


@pytest.mark.parametrize("problem", [None, "it is stopped"])
def test_an_answer_that_is_missing_is_named(problem: str | None) -> None:
    found = own_losses(PacketLosses(), answers(1, 1), Answers(problem))
    reason = problem or "it did not answer within 0.5 s"
    assert found == PacketLosses(unread=(f"counters of ovs-vswitchd: {reason}",))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A control socket of this process."""
    path = tmp_path / "ovs-vswitchd.1.ctl"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen(1)
        listening.settimeout(HANGS_S)
        yield listening


def asked(connection: socket.socket) -> list[dict[str, object]]:
    text, found = connection.recv(4096).decode(), []
    while text:
        request, end = json.JSONDecoder().raw_decode(text)
        found.append(request)
        text = text[end:]
    return found


def test_answers_come_in_any_pieces(server: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unixctl_module, "TAKEN_WITHIN_S", HANGS_S)
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS, USERSPACE])
    requests = asked(connection)
    assert [(each["method"], each["params"]) for each in requests] == [
        ("upcall/show", []),
        ("dpctl/show", ["-s", "netdev@ovs-netdev"]),
    ]
    good = {"id": requests[0]["id"], "result": SHOWN_UPCALLS, "error": None}
    bad = {"id": requests[1]["id"], "result": None, "error": "no such datapath"}
    message = (json.dumps(good) + json.dumps(bad)).encode()
    for at in range(0, len(message), 50):
        connection.send(message[at : at + 50])
        unixctl.receive(0.0)
    assert found.texts == {UPCALLS: SHOWN_UPCALLS}
    unixctl.close()
    connection.close()


def test_a_process_that_does_not_answer_is_asked_once(server: socket.socket) -> None:
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    first = unixctl.ask([UPCALLS])
    unixctl.receive(0.01)
    second = unixctl.ask([UPCALLS])
    assert (first.texts, first.problem) == ({}, None)
    assert second.problem == "it has not answered before"
    assert len(asked(connection)) == 1
    unixctl.close()
    connection.close()


@pytest.mark.parametrize(
    ("sent", "problem"),
    [(b"", "it hung up"), (b'"' + b"x" * 2000, "its answer is too long")],
)
def test_what_is_no_answer_is_given_up(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch, sent: bytes, problem: str
) -> None:
    monkeypatch.setattr(unixctl_module, "MOST_BYTES", 1000)
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS])
    connection.send(sent)
    connection.close()
    unixctl.receive(60)
    assert found.problem == problem
    unixctl.close()


@pytest.mark.parametrize("sent", [b"[" * 900 + b"}", b'{"id": [1]}', b"[1]{}", b"\xff}"])
def test_nonsense_is_no_answer(server: socket.socket, sent: bytes) -> None:
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS])
    connection.send(sent)
    unixctl.receive(0.01)
    assert found.texts == {}
    unixctl.close()
    connection.close()


def test_a_process_without_a_control_socket_is_named_so() -> None:
    with pytest.raises(UnavailableError, match="it has no control socket"):
        Unixctl(os.getpid())


def test_another_process_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its netlink sockets are all that is read."""
    monkeypatch.setattr(counters_module, "_unixctl_of", None)
    monkeypatch.setattr(counters_module, "_datapaths_of", None)
    counters = counters_module.LossCounters(os.getpid(), "app")
    before = counters.read()
    found = counters.between(before, counters.read())
    assert before.sockets is not None
    assert before.conntrack is None
    assert found.unread == ()
    counters.close()


def sample_of(found: PacketLosses, *threads: Thread, **changes: object) -> Sample:
    sample = bare_sample(
        *threads,
        timed_thread(98, "other"),
        window=window(duration_ns=TIMED_WINDOW_NS),
        target=Target(PID, "ovs-vswitchd", "/usr/sbin/ovs-vswitchd"),
        packet_losses=found,
    )
    return replace(sample, **changes)


def finding(rule: str, sample: Sample) -> Finding:
    (found,) = (each for each in judge(sample).verdict if each.rule == rule)
    return found


LOST = PacketLosses(
    datapaths=(
        DatapathLosses(
            "system@ovs-system", 100, 28, (PortLosses("veth1", 0, 0, 90, failed_upcalls=28),)
        ),
    ),
    sockets=(SocketOverrun(385, 2723381101, "GENERIC", 28, 11),),
)


def test_lost_upcalls_name_port_error_and_handler() -> None:
    handler = timed_thread(11, "handler2", ready=500)
    stats = UpcallStats(11, "EAGAIN", 28, ())
    found = finding("upcalls_lost", sample_of(LOST, handler, upcalls=(stats,)))
    assert (found.tid, found.who, found.share, found.remark) == (11, "other-process", 1.0, False)
    assert found.sentence == (
        "system@ovs-system lost 28 upcalls: these packets had no flow, and did not reach Open"
        " vSwitch."
    )
    assert found.details == (
        "They came in at veth1 (28).",
        "The kernel's errors: EAGAIN 28.",
        "Netlink socket 2723381101 overran 28 times.",
        "Its reader, the handler handler2 (11), could run but had no CPU for 500.0 ms, 100 % of"
        " the window.",
    )
    assert found.evidence == {
        "lost_ns": TIMED_WINDOW_NS, "lost": 28, "missed": 100, "overruns": 28
    }  # fmt: skip


def test_a_handler_that_slept_in_poll_was_not_late() -> None:
    poll = Sleep("poll", "poll", (), False, 9, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    idle = timed_thread(11, "handler2")
    found = finding("upcalls_lost", sample_of(LOST, replace(idle, sleeps=(poll,))))
    assert (found.share, found.who) == (0.0, "limit")
    assert "more came at once than its buffer holds" in found.text
    blocked = replace(poll, reason="futex", syscall="futex")
    found = finding("upcalls_lost", sample_of(LOST, replace(idle, sleeps=(blocked,))))
    assert "was blocked in futex for 500.0 ms" in found.text
    short = replace(poll, reason="short", syscall=None)
    found = finding("upcalls_lost", sample_of(LOST, replace(idle, sleeps=(short,))))
    assert "was not late for long" in found.text


def test_without_a_known_reader_nobody_is_late() -> None:
    unknown = PacketLosses(sockets=(SocketOverrun(7, 3, "ROUTE", 5),))
    found = finding("netlink_overrun", sample_of(unknown, timed_thread(PID, "ovs-vswitchd")))
    assert (found.tid, found.share, found.details) == (PID, 0.0, ())
    file = SleepFile(4, 7)
    sleep = Sleep("socket_receive", "recvmsg", (), False, 9, 10**8, 10**8, file=file)
    reader = replace(timed_thread(12, "reader"), sleeps=(sleep,))
    assert finding("netlink_overrun", sample_of(unknown, reader)).tid == 12


def test_rare_drops_of_a_port_are_a_remark() -> None:
    def port(packets: int) -> PacketLosses:
        drops = PortLosses("veth1", 3, 0, packets)
        return PacketLosses(datapaths=(DatapathLosses("system@ovs-system", 0, 0, (drops,)),))

    assert finding("port_drops", sample_of(port(100_000))).remark
    assert not finding("port_drops", sample_of(port(100))).remark


def test_conntrack_that_drops_with_room_is_not_called_full() -> None:
    def table(entries: int, early: int) -> PacketLosses:
        return PacketLosses(conntrack=ConntrackLosses(entries, 100, 7, early, 0))

    assert "is full" in finding("conntrack_full", sample_of(table(100, 0))).sentence
    assert "is full" in finding("conntrack_full", sample_of(table(50, 3))).sentence
    assert "is full" not in finding("conntrack_full", sample_of(table(50, 0))).sentence


def test_a_limit_that_shrank_is_a_remark_until_it_is_reached() -> None:
    def limit(flows: int, hits: int) -> PacketLosses:
        found = FlowLimit("system@ovs-system", flows, 1000, 8000, 2_300_000_000)
        return PacketLosses(flow_limits=(found,), events={"upcall_flow_limit_hit": hits})

    shrank = finding("flow_limit", sample_of(limit(900, 0)))
    assert shrank.remark
    assert shrank.details == (
        "The limit is 1,000 now, for 900 flows; the last dump of all took 2,300.0 ms.",
        "The limit shrinks if a dump takes longer than 1.3 s, or is set.",
    )
    assert not finding("flow_limit", sample_of(limit(1000, 5))).remark


def test_hits_of_revalidators_are_no_packets() -> None:
    """They count one for each batch of flows that they check at the limit."""

    assert "reached its flow limit: 7 packets got no" in of_limit(
        DatapathLosses("netdev@n", 0, 0, (), 7), hits=40
    )
    assert of_limit(DatapathLosses("netdev@n", 0, 0, (), 0), hits=40) == ""
    # Of the kernel's datapath it can be no more than what came.
    assert "limit: up to 5 packets" in of_limit(DatapathLosses("system@s", 8, 3), hits=40)
    assert "limit: up to 40 packets" in of_limit(DatapathLosses("system@s", 80, 3), hits=40)
    assert of_limit(DatapathLosses("system@s", 0, 0), hits=40) == ""


def of_limit(
    datapath: DatapathLosses, *, flows: int = 1000, hits: int = 0, deleted: int = 0
) -> str:
    """What is said of its flow limit, 1,000."""
    limits = (FlowLimit(datapath.name, flows, 1000, 1000, 0),)
    events = {"upcall_flow_limit_hit": hits, "upcall_flow_limit_kill": deleted}
    found = PacketLosses(datapaths=(datapath,), flow_limits=limits, events=events)
    verdict = judge(sample_of(found)).verdict
    return next((each.sentence for each in verdict if each.rule == "flow_limit"), "")


def test_limit_was_reached_though_flows_are_gone_since() -> None:
    """At the limit flows that were idle for 100 ms go; above twice the limit any go."""
    netdev = DatapathLosses("netdev@n", 0, 0, (), 7)
    assert "reached its flow limit: 7 packets" in of_limit(netdev, flows=10, hits=40)
    assert "more than twice as many flows as its limit" in of_limit(
        replace(netdev, without_flow=0), deleted=3
    )
    # Threads hand over their counts late.
    assert "reached its flow limit: 7 packets" in of_limit(netdev, flows=950)


def test_packets_without_flow_below_the_limit_are_said() -> None:
    netdev = DatapathLosses("netdev@n", 0, 0, (), 30)
    assert of_limit(netdev, flows=10) == (
        "netdev@n made no flow of 30 packets: the next ones miss again."
    )
    limits = (FlowLimit("netdev@n", 10, 1000, 1000, 0),)
    losses = PacketLosses(datapaths=(netdev,), flow_limits=limits)
    pmd = replace(
        timed_thread(6, "pmd-c01/id:6"),
        pmd=PmdStats(1, iterations=1, busy_iterations=1, packets=3000, upcalls=0, lost_upcalls=30),
    )
    assert not finding("flow_limit", sample_of(losses, pmd)).remark
    fewer = replace(losses, datapaths=(replace(netdev, without_flow=29),))
    assert finding("flow_limit", sample_of(fewer, pmd)).remark
    assert finding("flow_limit", sample_of(losses)).remark


def test_each_rule_is_on_the_page(project: Path) -> None:
    page = (project / "docs" / "open-vswitch" / "lost-packets.md").read_text()
    assert [rule for rule in LOSS_RULES if f"| `{rule}` |" not in page] == []


def test_losses_without_a_cause_are_found_without_accounting() -> None:
    sample = sample_of(LOST, upcalls=None)
    bare = replace(sample, threads=tuple(replace(each, time=None) for each in sample.threads))
    assert [each.rule for each in judge(bare).verdict] == ["upcalls_lost"]


def test_answers_without_end_are_given_up(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unixctl_module, "MOST_BYTES", 100_000)
    monkeypatch.setattr(unixctl_module, "TAKEN_WITHIN_S", 60)
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS])

    def send() -> None:
        with suppress(OSError):
            while True:
                connection.sendall(b"{}" * 10_000)

    sender = threading.Thread(target=send)
    sender.start()
    unixctl.receive(60)
    assert found.problem == "its answer is too long"
    unixctl.close()
    sender.join()
    connection.close()


def test_slow_answers_are_not_waited_for_for_ever(
    server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unixctl_module, "_CHUNK", 1)
    monkeypatch.setattr(unixctl_module, "TAKEN_WITHIN_S", 0.0)
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS])
    connection.send(b"{}" * 1000)
    unixctl.receive(0.0)
    assert (found.texts, found.problem) == ({}, None)
    assert unixctl.ask([UPCALLS]).problem == "it has not answered before"
    unixctl.close()
    connection.close()


def test_names_of_other_sockets_do_not_matter(server: socket.socket) -> None:
    """Abstract names may hold whole lines, and what Python takes for the end of one."""
    inode = os.fstat(server.fileno()).st_ino
    forged = f"\n0: 2 0 xyz 0001 01 {inode} /a.ctl\n0: 2 0 10000 0001 01 1"
    names = (f"\0a\v{os.getpid()}.ctl", f"\0{forged}{os.getpid()}", f"\0\r\x1c{os.getpid()}")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(name)
        unixctl = Unixctl(os.getpid())
        unixctl.close()


def test_only_the_process_s_own_socket_is_asked(
    server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may since be another's: here a child listens there."""
    path = server.getsockname()
    Path(path).unlink()
    ready, write = os.pipe()
    child = os.fork()
    if not child:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen()
            os.write(write, b"x")
            signal.alarm(60)
            signal.pause()
    os.read(ready, 1)
    try:
        with pytest.raises(UnavailableError, match="another process listens there"):
            Unixctl(os.getpid())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(write)


def test_a_link_may_lead_to_a_control_socket(tmp_path: Path) -> None:
    """As /var/run is one."""
    link = tmp_path / "run"
    link.symlink_to(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(link / "a.ctl"))
        listening.listen()
        Unixctl(os.getpid()).close()


def test_answers_are_text_that_can_be_written(server: socket.socket) -> None:
    """JSON may have half of a pair of UTF-16."""
    unixctl = Unixctl(os.getpid())
    connection, _ = server.accept()
    found = unixctl.ask([UPCALLS])
    (request,) = asked(connection)
    connection.send(f'{{"id": {request["id"]}, "result": "a\\ud800b"}}'.encode())
    unixctl.receive(60)
    assert found.texts == {UPCALLS: "a\\ud800b"}
    unixctl.close()
    connection.close()


def test_a_control_socket_may_have_any_bytes_in_its_path(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.fsencode(tmp_path) + b"/\xff\r.ctl")
        listening.listen()
        Unixctl(os.getpid()).close()


def test_what_was_not_read_drives_no_terminal() -> None:
    unread = ("counters: \x1b[31m\r\u202e",)
    sample = bare_sample(
        timed_thread(1, "a"), packet_losses=PacketLosses(unread=unread), window=window()
    )
    (said,) = (line for line in text.render(sample).splitlines() if "Not read" in line)
    assert said == "# Not read: counters: \\x1b[31m\\x0d\\u202e."


def reading_of(*sockets: PacketSocket) -> LossReading:
    reading = LossReading()
    reading.packet_sockets = {each.inode: each for each in sockets}
    return reading


def test_drops_of_packet_sockets_are_the_difference() -> None:
    before = reading_of(PacketSocket(5, 3, 10), PacketSocket(6, 0, WRAPS_AT - 2))
    after = reading_of(
        PacketSocket(5, 3, 10), PacketSocket(6, 0, 7), PacketSocket(7, 4, 20), PacketSocket(8, 4, 1)
    )
    found = with_devices(losses(before, after, None), {5, 6, 7}, {4: "veth1"}.get)
    assert found.port_overruns == (PortOverrun(6, 0, 9), PortOverrun(7, 4, 20, "veth1"))
    # Of a time that was not read nothing is claimed.
    assert losses(LossReading(), after, None).port_overruns == ()


def test_drops_are_summed_up_by_port() -> None:
    overruns = (PortOverrun(7, 4, 20, "veth1"), PortOverrun(8, 4, 5, "veth1"), PortOverrun(9, 2, 3))
    thread = timed_thread(PID, "ovs-vswitchd", throttled=400)
    sample = bare_sample(thread, window=window("time", TIMED_WINDOW_NS))
    sample = replace(
        sample,
        target=Target(PID, "ovs-vswitchd", None),
        packet_losses=PacketLosses(port_overruns=overruns),
    )
    (finding,) = (each for each in judge(sample).verdict if each.rule == "port_overrun")
    assert finding.sentence is not None
    assert finding.sentence.startswith("port veth1 lost 25 packets that came in: the packet socket")
    assert "Other ports: of device 2 (3)." in finding.text
    assert "was throttled by its cgroup's CPU quota for" in finding.text
    assert dict(finding.evidence)["lost"] == 28


def test_packet_socket_is_read_from_the_kernel() -> None:
    with suppress(PermissionError), ExitStack() as stack:
        made = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
        made.bind(("lo", LOCAL_EXPERIMENTAL))
        sockets = PacketSockets(os.getpid())
        stack.callback(sockets.close)
        try:
            found = sockets.read()
        except OSError as error:
            pytest.skip(f"this kernel shows no packet sockets: {error}")
        mine = found[os.fstat(made.fileno()).st_ino]
        assert (mine.ifindex, mine.drops) == (socket.if_nametoindex("lo"), 0)
        assert sockets.device(mine.ifindex) == "lo"
        assert sockets.device(2**31 - 1) is None


@pytest.mark.parametrize("cut", [0, 3, 15, 16, 20, 40])
def test_cut_answer_on_a_packet_socket_is_borne(cut: int) -> None:
    answer = struct.pack("=BBHIII", 17, 3, 3, 5, 0, 0) + struct.pack("=HH9I", 40, 6, *range(9))
    assert read_socket(answer) == PacketSocket(5, 0, 8)
    assert read_socket(answer[:cut]) is None
