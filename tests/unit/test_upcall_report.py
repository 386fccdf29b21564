"""The text of upcall-cost: the slides' layout, and any events at all."""

import re

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.monitors.upcalls.cost_report import event_line, json_of, render, set_lines
from kernel_delay.monitors.upcalls.costs import analyse, costs_of
from kernel_delay.monitors.upcalls.events import DpUpcall, FlowPut, RecvUpcall
from kernel_delay.monitors.upcalls.join import UpcallSet, join
from tests.unit.upcall_trips import World

SENT = DpUpcall(
    time_ns=2681636_100_836_451,
    cpu=14,
    tid=0,
    comm="swapper/14",
    datapath="ovs-system",
    device="eth0",
    kind="miss",
    packet=bytes(60),
    packet_len=60,
    linear_len=60,
    in_port=1,
)
RECEIVED = RecvUpcall(
    time_ns=2681636_100_840_000,
    cpu=3,
    tid=3171019,
    comm="handler10",
    datapath="system@ovs-system",
    kind="miss",
    packet=bytes(60),
    packet_len=60,
    key=b"",
    key_len=0,
)


def test_an_event_is_a_line_as_in_the_slides() -> None:
    assert event_line(SENT) == (
        "[ovs_dp_upcall         ] swapper/14              0 [014]  2681636.100836451: "
        "ovs-system           1   60   60"
    )


def test_names_of_other_processes_are_escaped() -> None:
    event = FlowPut(time_ns=0, cpu=0, tid=1, comm="\x1b[31mred\n")
    assert r"\x1b[31mred\x0a" in event_line(event)


def test_a_set_shows_what_it_has() -> None:
    lines = set_lines(UpcallSet(recv_upcall=RECEIVED, batch=2, dp_upcall=SENT))
    assert lines[0] == "Uu--- batch 2: kernel to vswitchd 3549 ns"
    assert len(lines) == 3


def test_a_set_has_its_flow_and_the_rules() -> None:
    ufid, rules = "5bacfca9-fe5f-4dea-ad00-7be56e56bcde", ("table=0 actions=\x1b[2J", "drop")
    put = FlowPut(time_ns=0, cpu=0, tid=1, comm="handler10", ufid=ufid, rules=rules)
    found = UpcallSet(recv_upcall=RECEIVED, batch=2, flow_put=put)
    assert set_lines(found)[-3:] == [
        f"  flow ufid:{ufid}",
        "    table=0 actions=\\x1b[2J",
        "    drop",
    ]
    written = json_of(found)
    assert (written["ufid"], written["rules"]) == (ufid, rules)
    # Of what was recorded before there was a UFID in the events, and of a set without a flow.
    for old in (structs.replace(put, ufid="", rules=()), None):
        found = UpcallSet(recv_upcall=RECEIVED, batch=2, flow_put=old)
        assert (json_of(found)["ufid"], json_of(found)["rules"]) == (None, ())


def test_upcall_report_has_the_slides_sections_and_right_numbers() -> None:
    events, trips = World(11).run([30, 12])
    joined = join(events)
    text = render(joined, analyse(joined), {"recv_upcall": 2}, buckets=4)
    sections = re.findall(r"^=> (.*):$", text, re.MULTILINE)
    assert sections == [
        "Events received per type (usable/total) [missed events]",
        "Upcalls handled per thread",
        "Histogram of upcalls per batch",
        "Kernel upcall action to vswitchd receive (microseconds)",
        "vswitchd execute to kernel receive (microseconds)",
        "Upcall overhead (total time minus lookup) (microseconds)",
        "Kernel upcall to kernel packet execute (microseconds)",
    ]
    assert re.search(r"dpif_recv:recv_upcall +: +42/ +42 \[ +2\]", text)
    assert re.search(r"handler1 +: +30$", text, re.MULTILINE)
    assert re.search(r"handler2 +: +12$", text, re.MULTILINE)
    assert re.search(r"^ +12 \[1\]: ∎$", text, re.MULTILINE)
    assert "- Analyzing 42 event sets..." in text
    totals = [total for found in joined.sets if (total := costs_of(found).total_ns) is not None]
    last = text[text.index("=> Kernel upcall to kernel packet execute") :]
    counts = [int(count) for count in re.findall(r"\[ *(\d+)\]:", last)]
    assert len(counts) == 4
    assert sum(counts) == len(totals) == sum(bool(trip[4]) for trip in trips)
    assert f"Min = {min(totals) / 1000:.2f}; Max = {max(totals) / 1000:.2f}\n" in last


def test_nothing_to_measure_is_said() -> None:
    joined = join([SENT])
    text = render(joined, analyse(joined), {})
    assert "no cost" in text
    assert re.search(r"ovs_dp_upcall +: +0/ +1 \[ +0\]", text)


names = st.text(max_size=16)


@given(
    st.lists(
        st.builds(RecvUpcall, comm=names, datapath=names, tid=st.integers(0, 9))
        | st.builds(DpUpcall, comm=names, datapath=names, tid=st.integers(0, 9)),
        max_size=10,
    )
)
def test_any_events_make_a_report_of_printable_lines(
    events: list[DpUpcall | RecvUpcall],
) -> None:
    joined = join(events)
    lines = render(joined, analyse(joined), {}).split("\n")
    lines += [line for found in joined.sets for line in set_lines(found)]
    lines += [event_line(event) for event in events]
    assert all(line.isprintable() for line in lines)
