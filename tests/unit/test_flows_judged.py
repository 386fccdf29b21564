"""How `make test-flows` holds what the monitors recorded against what was said meanwhile."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kernel_delay.monitors.revalidator.events import FlowResults, RevalidatorRound, UdpifState
from tests.flows.judge import Asked, Change, judged
from tests.flows.traffic import Period, State

MS = 1_000_000
UFIDS = ("aa-1", "aa-2")


def match(number: int) -> str:
    return f"recirc_id(0),in_port(2),udp(src={number},dst=9)"


def state(begun_ms: int, numbers: Sequence[int]) -> State:
    count = len(numbers)
    return State(
        begun_ms * MS,
        (begun_ms + 100) * MS,
        f"  flows: (current {count}) (avg {count}) (max 2) (limit 9000)\n 4: (keys {count})\n",
        f"  flows: {count}\n",
        [f"ufid:{UFIDS[number]}, {match(number)}, packets:0" for number in numbers],
        [f"{match(number)}, packets:0, bytes:0, used:never, actions:1" for number in numbers],
    )


PERIOD = Period(
    name="max-idle",
    change="delete",
    reason="flow_idle",
    begun_ns=1000 * MS,
    filled_ns=2000 * MS,
    before=state(3000, (0, 1)),
    caused_ns=4000 * MS,
    after=state(5000, ()),
    purged_ns=6000 * MS,
    ended_ns=7000 * MS,
)


def found_round(start_ms: int, flows: int, deleted: int = 0) -> RevalidatorRound:
    return RevalidatorRound(
        datapath="system@ovs-system",
        tid=1,
        comm="revalidator1",
        start_ns=start_ms * MS,
        stop_ns=(start_ms + 10) * MS,
        previous_stop_ns=None,
        n_flows=flows,
        dumped=FlowResults(flows - deleted, deleted, 0),
        swept=FlowResults(flows - deleted, 0, 0),
        revalidated=0,
        poll_wait_ms=500,
        state=UdpifState(flows, 2, 9000, 9000, 10),
        leader_time=None,
    )


ROUNDS = (found_round(3050, 2), found_round(4050, 2, deleted=2), found_round(5050, 0))
CHANGES = (
    *(Change(1500 * MS, "insert", None, UFIDS[number], match(number)) for number in (0, 1)),
    *(Change(4055 * MS, "delete", "flow_idle", UFIDS[number], match(number)) for number in (0, 1)),
)


def asked(time_ms: int, number: int) -> Asked:
    return Asked(time_ms * MS, "flow_new", "ok", UFIDS[number], match(number), "1", None, [], None)


NEW = tuple(asked(1500, number) for number in (0, 1))
ASKED = (
    *NEW,
    *(replace(new, operation="packet_execute", packet=new.match) for new in NEW),
    *(replace(new, time_ns=4056 * MS, operation="flow_del", match=None) for new in NEW),
)


def test_what_is_the_same_is_right() -> None:
    found = judged(PERIOD, ROUNDS, CHANGES, ASKED)
    assert found.wrong == ()
    assert (found.made, found.changed, found.rounds, found.operations) == (2, 2, 3, 6)


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        (CHANGES[1:], "flows that were made: 1 and 2"),
        ((*CHANGES, CHANGES[0]), "flows that were made: 3 and 2"),
        (CHANGES[:-1], "what became of them by max-idle: 1 and 2"),
        ((*CHANGES[:-1], replace(CHANGES[-1], reason="purge")), "('aa-2', 'delete', 'purge')"),
        ((*CHANGES[:-1], replace(CHANGES[-1], reason=None)), "('aa-2', 'delete', None)"),
        ((replace(CHANGES[0], match="udp()"), *CHANGES[1:]), "matches of flows that were made"),
    ],
)
def test_a_change_that_is_not_as_the_dumps_say(changes: tuple[Change, ...], reported: str) -> None:
    assert any(reported in text for text in judged(PERIOD, ROUNDS, changes, ASKED).wrong)


@pytest.mark.parametrize(
    ("operations", "reported"),
    [
        (ASKED[1:], "flow_new, and flows of dpctl/dump-flows: 1 and 2"),
        ((replace(ASKED[0], actions="2"), *ASKED[1:]), "flow_new, and flows of dpctl/dump-flows"),
        ((*ASKED[:-1], replace(ASKED[-1], answer="ENOENT")), "flow_del, and flows"),
        ((*ASKED, replace(ASKED[-1], operation="flow_set")), "flow_set, and flows"),
        ((*ASKED[:2], *ASKED[3:]), "packets that were executed"),
    ],
)
def test_an_operation_that_is_none_of_the_flows(
    operations: tuple[Asked, ...], reported: str
) -> None:
    assert any(reported in text for text in judged(PERIOD, ROUNDS, CHANGES, operations).wrong)


@pytest.mark.parametrize(
    ("rounds", "reported"),
    [
        (ROUNDS[1:], "no round while flows were there"),
        ((replace(ROUNDS[0], n_flows=3), *ROUNDS[1:]), "3 flows, upcall/show 2"),
        ((replace(ROUNDS[0], swept=None), *ROUNDS[1:]), "None, and 2 keys"),
        ((ROUNDS[0], found_round(4050, 2, deleted=1), ROUNDS[2]), "1 deleted, 2 by the dumps"),
    ],
)
def test_a_round_that_is_not_as_open_vswitch_says(
    rounds: tuple[RevalidatorRound, ...], reported: str
) -> None:
    assert any(reported in text for text in judged(PERIOD, rounds, CHANGES, ASKED).wrong)


def test_flows_that_stay_are_reported() -> None:
    period = replace(PERIOD, after=PERIOD.before)
    assert "2 flows are there after max-idle" in judged(period, ROUNDS, CHANGES, ASKED).wrong
