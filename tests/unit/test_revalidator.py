"""What is made of rounds of revalidators, and what is said of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.monitors.revalidator import events
from kernel_delay.monitors.revalidator.events import (
    FlowCheck,
    FlowChecks,
    FlowResults,
    LeaderTime,
    Revalidation,
    RevalidatorRound,
    SinceLast,
    UdpifState,
    limit_change,
)
from kernel_delay.monitors.revalidator.probe import FLOW_PROBES, Decoding
from kernel_delay.monitors.revalidator.report import (
    HEADER,
    POLL_HEADER,
    RevalidatorReport,
    check_lines,
    datapath_line,
    polled_round_line,
    remark_lines,
    render,
    round_line,
    sparkline,
)
from kernel_delay.openvswitch._ovs_records import ffi

NS_PER_MS = 1_000_000
START_NS = 5 * 10**12
STATE = UdpifState(
    avg_n_flows=90,
    max_n_flows=120,
    flow_limit=200_000,
    flow_limit_before=200_000,
    dump_duration_ms=4,
)
ROUND = RevalidatorRound(
    datapath="system@ovs-system",
    tid=17,
    comm="revalidator9",
    start_ns=START_NS,
    stop_ns=START_NS + 4 * NS_PER_MS,
    previous_stop_ns=None,
    n_flows=100,
    dumped=FlowResults(kept=90, deleted=8, modified=2),
    swept=FlowResults(kept=91, deleted=1, modified=0),
    revalidated=50,
    poll_wait_ms=500,
    state=STATE,
    leader_time=LeaderTime(3 * NS_PER_MS, NS_PER_MS // 2, NS_PER_MS // 2),
)


def test_removed_flows_are_those_deleted_where_probes_lack() -> None:
    found = structs.replace(ROUND, dumped=None, swept=None, removed=3)
    assert found.deleted == 3
    assert structs.replace(found, removed=None).deleted is None
    assert not found.like(structs.replace(found, removed=4))
    rounds = Revalidation()
    rounds.of(found).take(found)
    rounds.of(found).take(after(found, 10))
    assert "  in the sweep: 6 removed" in render(rounds)


def state(**changes: int) -> UdpifState:
    return structs.replace(STATE, **changes)


def after(found: RevalidatorRound, wait_ms: int, **changes: Any) -> RevalidatorRound:
    """The same again, so long after its end."""
    start_ns = found.stop_ns + wait_ms * NS_PER_MS
    following = structs.replace(
        found,
        previous_stop_ns=found.stop_ns,
        start_ns=start_ns,
        stop_ns=start_ns + found.duration_ns,
    )
    return structs.replace(following, **changes)


def lines_of(*rounds: RevalidatorRound) -> list[str]:
    """What is printed of each, without the summary."""
    revalidation = Revalidation()
    lines = []
    for found in rounds:
        known = revalidation.of(found)
        since = known.take(found)
        lines += [round_line(known, found), *remark_lines(found, since)]
    return lines


# By hand from udpif_revalidator() of Open vSwitch 3.5: what a dump of so long makes of a limit.
@pytest.mark.parametrize(
    ("before", "duration_ms", "now", "change"),
    [
        (200_000, 5, 200_000, None),
        (200_000, 5, 201_000, "grew"),
        (200_000, 999, 201_000, "grew"),
        (200_000, 1300, 150_000, "set"),
        (200_000, 1301, 150_000, "reduced"),
        (200_000, 2000, 150_000, "reduced"),
        (200_000, 2001, 100_000, "scaled"),
        (200_000, 5500, 40_000, "scaled"),
        (1200, 4000, 1000, "scaled"),
        (1200, 1400, 1000, "reduced"),
        (200_000, 1400, 5_000, "set"),
        (200_000, 5, 300_000, "set"),
        (200_000, 1100, 201_000, "set"),
    ],
)
def test_why_the_flow_limit_changed(
    before: int, duration_ms: int, now: int, change: str | None
) -> None:
    found = state(flow_limit_before=before, flow_limit=now, dump_duration_ms=duration_ms)
    assert limit_change(structs.replace(ROUND, state=found)) == change


def test_a_round_is_a_line_of_80_columns() -> None:
    assert len(HEADER) == 80
    first, second = lines_of(ROUND, after(ROUND, 496))
    assert first.split() == [
        *("5000.004", "1", "100", "50", "9", "200,000", "4.0", "75%", "12%", "12%", "-")
    ]
    assert second.split()[-1] == "496.0"
    assert (len(first), len(second)) == (80, 80)


def test_with_the_poll_wait_a_line_has_88() -> None:
    known = Revalidation().of(ROUND)
    known.take(ROUND)
    line = polled_round_line(known, structs.replace(ROUND, poll_wait_ms=1500))
    assert line == f"{round_line(known, ROUND)}   1,500"
    assert (len(POLL_HEADER), len(line)) == (88, 88)


def test_what_is_not_known_is_a_dash() -> None:
    unknown = structs.replace(
        ROUND, dumped=None, swept=None, revalidated=None, state=None, leader_time=None
    )
    (line,) = lines_of(unknown)
    assert line.split() == ["5000.004", "1", "100", "-", "-", "-", "4.0", "-", "-", "-", "-"]
    revalidation = Revalidation()
    revalidation.of(unknown).take(unknown)
    assert "keeps it where it is not looked for" in render(revalidation)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        (
            {"state": state(flow_limit=100_000, dump_duration_ms=2001)},
            "limit cut from 200,000 to 100,000: the dump took 2,001 ms, over 2,000",
        ),
        (
            {"state": state(flow_limit=150_000, dump_duration_ms=1400)},
            "limit cut from 200,000 to 150,000: the dump took 1,400 ms, over 1,300",
        ),
        (
            {"n_flows": 200_001},
            "200,001 flows, limit 200,000: none is added, idle ones go after 100 ms",
        ),
        (
            {"n_flows": 400_001},
            "400,001 flows, limit 200,000: over twice as many, any goes until it is not",
        ),
        (
            {"state": state(flow_limit=7)},
            "limit set from 200,000 to 7, whatever the dump took",
        ),
    ],
)
def test_what_open_vswitch_does_about_a_round_is_reported(
    changes: dict[str, Any], reported: str
) -> None:
    assert lines_of(structs.replace(ROUND, **changes))[1:] == [f"  ! {reported}"]


def test_a_limit_that_grows_is_not_worth_a_line() -> None:
    assert len(lines_of(structs.replace(ROUND, state=state(flow_limit=201_000)))) == 1


def test_a_round_that_starts_late_is_reported() -> None:
    assert lines_of(ROUND, after(ROUND, 496 + 100))[2:] == []
    assert lines_of(ROUND, after(ROUND, 496 + 101))[2:] == ["  ! started 101.0 ms later than due"]
    # Of one behind a round that was lost it is not known.
    lost = after(after(ROUND, 496), 2000)
    assert lines_of(ROUND, lost)[2:] == []


def test_flow_limit_set_between_rounds_is_reported() -> None:
    lowered = state(flow_limit_before=5000, flow_limit=5000)
    *_, remark = lines_of(ROUND, after(ROUND, 496, state=lowered))
    assert remark == "  ! limit set from 200,000 to 5,000 before it"


def test_the_summary_is_of_each_datapath() -> None:
    revalidation = Revalidation()
    other = structs.replace(ROUND, datapath="netdev@ovs-\x1b", tid=18, n_flows=0)
    for found in (ROUND, other, after(ROUND, 496), after(after(ROUND, 496), 496)):
        revalidation.of(found).take(found)
    assert revalidation.rounds == 4
    text = render(revalidation)
    assert "system@ovs-system: 3 rounds in 1.004 s, led by revalidator9 (17)" in text
    assert "netdev@ovs-\\x1b: 1 round in 0.004 s, led by revalidator9 (18)" in text
    assert "  poll wait, ms        500.0       500.0       500.0       500.0\n" in text
    assert "  in the dump: 270 kept, 6 modified, 24 deleted" in text
    assert "  in the sweep: 273 kept, 0 modified, 3 deleted" in text
    assert "  leader's time in rounds: run 75.0%, runnable 12.5%, blocked 12.5%" in text
    assert "  flow limit: 200,000, unchanged\n" in text
    assert "flows since its start: on average 90, at most 120" in text
    assert max(map(len, text.splitlines())) <= 80
    assert (
        datapath_line(revalidation.datapaths["system@ovs-system"], ROUND)
        == "datapath 1: system@ovs-system, led by revalidator9 (17)"
    )


def test_without_a_round_it_says_so() -> None:
    assert render(Revalidation()) == "no round was seen from its start to its end"


def test_what_was_not_seen_is_reported() -> None:
    assert (
        RevalidatorReport.missed_lines({"revalidator_rounds": 0, "flow_results": 0, "else": 5})
        == []
    )
    assert RevalidatorReport.missed_lines({"revalidator_rounds": 2, "flow_results": 3}) == [
        "2 rounds were lost: this process was kept from its CPU for too long",
        "3 flows were not counted: their probe was hit while its program ran",
    ]


@given(st.lists(st.integers(0, 1 << 60), max_size=20))
def test_bars_are_as_high_as_their_values(values: list[int]) -> None:
    bars = sparkline(values)
    assert len(bars) == len(values)
    ranked = sorted(zip(values, bars, strict=True))
    assert [bar for _, bar in ranked] == sorted(bars)
    assert not values or not max(values) or bars[values.index(max(values))] == "█"


def test_datapaths_without_end_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_DATAPATHS", 2)
    revalidation = Revalidation()
    for number in range(5):
        found = structs.replace(ROUND, datapath=f"netdev@{number}")
        revalidation.of(found).take(found)
    assert [each.rounds for each in revalidation.datapaths.values()] == [1, 1, 3]


def test_rounds_that_differ_in_their_times_alone_are_alike() -> None:
    assert after(ROUND, 496).like(ROUND)
    assert not after(ROUND, 496, n_flows=101).like(ROUND)
    assert not after(ROUND, 496, dumped=FlowResults(89, 9, 2)).like(ROUND)
    assert SinceLast() == SinceLast(None, None)


def record(
    *, datapath: str = "netdev@ovs-netdev", decoding: Decoding | None = None, **fields: int
) -> RevalidatorRound:
    """A round as the programs report it, decoded."""
    found = ffi.new("struct revalidator_round *")
    found.event.time_ns = START_NS + 10 * NS_PER_MS
    found.start_ns = START_NS
    found.datapath[0 : len(datapath)] = [letter.encode() for letter in datapath]
    found.is_udpif = 1
    found.account_known = 1
    found.n_flows, found.max_n_flows, found.avg_n_flows = 10, 20, 15
    found.dump_duration_ms = 10
    for field, value in fields.items():
        setattr(found, field, value)
    return (decoding or Decoding(FLOW_PROBES)).round(found)


def test_the_leaders_time_adds_up() -> None:
    found = record(off_cpu_ns=4 * NS_PER_MS, runnable_ns=NS_PER_MS)
    assert found.leader_time == LeaderTime(6 * NS_PER_MS, NS_PER_MS, 3 * NS_PER_MS)
    # Two clocks: a wait for a CPU can't be longer than it was off it.
    found = record(off_cpu_ns=4 * NS_PER_MS, runnable_ns=4 * NS_PER_MS + 1)
    assert found.leader_time == LeaderTime(6 * NS_PER_MS, 4 * NS_PER_MS, 0)
    assert record(account_known=0).leader_time is None
    assert record(off_cpu_ns=11 * NS_PER_MS).leader_time is None


@pytest.mark.parametrize(
    "fields",
    [
        {"is_udpif": 0},
        {"max_n_flows": 9},
        {"avg_n_flows": 21},
        {"dump_duration_ms": 7},
        {"dump_duration_ms": 0},
    ],
)
def test_a_struct_of_another_layout_is_not_believed(fields: dict[str, Any]) -> None:
    assert record().state is not None
    assert record(**fields).state is None


def test_late_leader_of_a_known_layout_is_believed() -> None:
    """What it logs of a long round, or a CPU it loses, is between Open vSwitch's clock and ours."""
    decoding = Decoding(FLOW_PROBES)
    assert record(decoding=decoding, dump_duration_ms=7).state is None
    assert record(decoding=decoding).state is not None
    state = record(decoding=decoding, dump_duration_ms=7).state
    assert state is not None
    assert state.dump_duration_ms == 7
    assert record(decoding=decoding, is_udpif=0).state is None
    assert record(decoding=decoding, max_n_flows=9).state is None
    assert record(decoding=decoding, dump_duration_ms=0).state is None


def test_datapath_without_a_name_has_its_address() -> None:
    assert record(datapath="", udpif=0x55AA).datapath == "0x55aa"


def take_checks(decoding: Decoding, tid: int, *ns: int, start_ns: int = START_NS) -> None:
    """A revalidator's checks of a round, each of a flow of its own that waited for 1 ns."""
    found = ffi.new("struct flow_checks *")
    found.event.time_ns = START_NS + 10 * NS_PER_MS
    found.start_ns, found.tid, found.waits_known = start_ns, tid, 1
    found.n_checks, found.checks_ns, found.waited_ns = len(ns), sum(ns), len(ns)
    for place, length_ns in enumerate(ns):
        check = found.slowest[place]
        check.ns, check.waited_ns, check.ufid[3] = length_ns, 1, length_ns
        check.created_ms = START_NS // NS_PER_MS
    decoding.take_checks(found)


def test_checks_of_all_revalidators_are_in_their_round() -> None:
    decoding = Decoding(FLOW_PROBES, 3)
    take_checks(decoding, 5, 90, start_ns=START_NS - 1)
    take_checks(decoding, 7, 500, 100, 300)
    take_checks(decoding, 8, 400, 200)
    found = record(decoding=decoding)
    assert found.checks is not None
    assert (found.checks.count, found.checks.ns, found.checks.waited_ns) == (5, 1500, 5)
    slowest = [(each.tid, each.ns, each.waited_ns) for each in found.checks.slowest]
    assert slowest == [(7, 500, 1), (8, 400, 1), (7, 300, 1)]
    first = found.checks.slowest[0]
    assert first.ufid == "00000000-0000-0000-0000-0000000001f4"
    assert (first.age_ms, first.result) == (10, "kept")
    # Of the next round there are none, and without their time nothing is said.
    assert record(decoding=decoding).checks == FlowChecks(0, 0, 0, ())
    assert record().checks is None


def test_slowest_checks_are_below_their_round_and_summed_up() -> None:
    check = FlowCheck(7, "0-1-2-3-4", 1_500_000, 500_000, 12, 10, "modified")
    checks = FlowChecks(100, 9_000_000, 1_000_000, (check, structs.replace(check, ns=1_200_000)))
    first = structs.replace(after(ROUND, 500), checks=checks)
    last = structs.replace(after(first, 500), checks=FlowChecks(1, 700_000, None, ()))
    lines = check_lines(first.checks)
    took = "100 checks against the OpenFlow tables took 9.000 ms, 1.000 of it ready:"
    assert lines[0].strip() == took
    assert lines[2].split() == ["1.500", "0.500", "0-1-2-3-4", "12", "modified"]
    assert max(map(len, lines)) <= 80
    revalidation = Revalidation()
    for each in (first, last):
        revalidation.of(each).take(each)
    summary = render(revalidation).splitlines()
    assert "  101 checks against the OpenFlow tables took 9.700 ms:" in summary
    # Of a flow its longest.
    assert sum("0-1-2-3-4" in line for line in summary) == 1
    assert "ovs-appctl dpctl/get-flow" in summary[-1]
    assert check_lines(FlowChecks(0, 0, 0, ())) == check_lines(None) == []


def test_what_was_not_counted_is_not_none_at_all() -> None:
    found = Decoding({"on_revalidate_ukey"}).round(ffi.new("struct revalidator_round *"))
    assert (found.dumped, found.swept, found.revalidated) == (None, None, 0)
