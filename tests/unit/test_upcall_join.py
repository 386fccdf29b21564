"""Joining events into sets, against trips whose truth is known."""

import random
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
from kernel_delay.monitors.upcalls.join import UpcallSet, join
from tests.unit.upcall_trips import START_NS, Trip, World

seeds = st.integers(0, 1 << 32)
sizes = st.lists(st.integers(1, 64), min_size=1, max_size=5)


def parts(found: UpcallSet) -> Trip:
    return (
        found.dp_upcall,
        found.recv_upcall,
        found.flow_put,
        found.flow_execute,
        found.packet_cmd_execute,
    )


def by_receipt(trips: list[Trip]) -> list[Trip]:
    return sorted(trips, key=lambda trip: trip[1].time_ns if trip[1] else 0)


@given(seeds, sizes, st.sampled_from([64, 256]), st.randoms(use_true_random=False))
def test_with_keys_every_trip_is_found_whole(
    seed: int, batches: list[int], capture: int, order: random.Random
) -> None:
    events, trips = World(seed, capture=capture).run(batches)
    shuffled = list(events)
    order.shuffle(shuffled)
    joined = join(shuffled)
    assert [parts(found) for found in joined.sets] == by_receipt(trips)
    assert sorted(joined.batch_sizes) == sorted(batches)
    assert joined.usable == joined.total
    assert sum(joined.total.values()) == len(events)


@given(seeds, sizes)
def test_without_keys_only_puts_without_execute_may_mismatch(seed: int, batches: list[int]) -> None:
    events, trips = World(seed, keys=False).run(batches)
    joined = join(events)
    for found, true in zip(joined.sets, by_receipt(trips), strict=True):
        dp_upcall, recv_upcall, put, execute, taken = true
        assert parts(found)[:2] == (dp_upcall, recv_upcall)
        assert parts(found)[3:] == (execute, taken)
        if put and execute:
            assert found.flow_put is put


@given(seeds, sizes, st.sets(st.integers(0, 1000), max_size=30))
def test_lost_events_make_sets_smaller_never_wrong(
    seed: int, batches: list[int], lost: set[int]
) -> None:
    events, trips = World(seed).run(batches)
    left = [event for number, event in enumerate(events) if number not in lost]
    true = {id(trip[1]): trip for trip in trips}
    for found in join(left).sets:
        for got, right in zip(parts(found)[:4], true[id(found.recv_upcall)], strict=False):
            assert got is None or got is right


def test_lost_kernel_execute_does_not_shift_the_others() -> None:
    events, _ = World(1).run([10])
    taken = [event for event in events if isinstance(event, PacketCmdExecute)]
    assert len(taken) > 2
    joined = join([event for event in events if event is not taken[0]])
    assert all(found.packet_cmd_execute is None for found in joined.sets)
    assert joined.usable[PacketCmdExecute] == 0


def test_packets_tell_which_execute_of_the_kernel_was_lost() -> None:
    events, trips = World(1).run([10])
    packets = {id(trip[4]): trip[3] for trip in trips if isinstance(trip[3], FlowExecute)}
    reported: list[Event] = []
    for event in events:
        if isinstance(event, PacketCmdExecute):
            sent = packets[id(event)]
            assert isinstance(sent, FlowExecute)
            event = msgspec.structs.replace(event, packet=sent.packet, packet_len=sent.packet_len)
        reported.append(event)
    taken = [event for event in reported if isinstance(event, PacketCmdExecute)]
    joined = join([event for event in reported if event is not taken[3]])
    found = [s.packet_cmd_execute for s in joined.sets if s.packet_cmd_execute]
    assert found == taken[:3] + taken[4:]


def test_dropped_upcall_is_not_matched_to_a_later_receipt() -> None:
    events, _ = World(2).run([1])
    sent = next(event for event in events if isinstance(event, DpUpcall))
    dropped = msgspec.structs.replace(sent, time_ns=sent.time_ns - 10**9, error=105)
    (found,) = join([dropped, *events]).sets
    assert found.dp_upcall is sent


def test_upcalls_that_differ_at_the_end_do_not_match() -> None:
    events, _ = World(2).run([1])
    sent = next(event for event in events if isinstance(event, DpUpcall))
    whole = msgspec.structs.replace(sent, linear_len=sent.packet_len)
    other = msgspec.structs.replace(
        whole, time_ns=sent.time_ns - 1, packet=sent.packet[:-1] + bytes([sent.packet[-1] ^ 1])
    )
    assert len(other.packet) > 54
    (found,) = join([other, *events]).sets
    assert found.dp_upcall is sent


def test_upcall_sent_after_the_receipt_does_not_match() -> None:
    events, _ = World(2).run([1])
    sent = next(event for event in events if isinstance(event, DpUpcall))
    late = msgspec.structs.replace(sent, time_ns=events[-1].time_ns + 1)
    joined = join([late, *(event for event in events if event is not sent)])
    assert joined.sets[0].dp_upcall is None
    assert joined.usable[RecvUpcall] == 0


@pytest.mark.parametrize(
    "change", [{"in_port": 9}, {"datapath": "other"}, {"kind": "action"}, {"recirc_id": 7}]
)
def test_upcall_with_another_port_or_datapath_does_not_match(change: dict[str, object]) -> None:
    events, _ = World(3).run([1])
    changed = [
        msgspec.structs.replace(event, **change) if isinstance(event, DpUpcall) else event
        for event in events
    ]
    assert [found.dp_upcall for found in join(changed).sets] == [None]


def test_a_key_cut_before_its_port_still_matches() -> None:
    events, trips = World(3).run([1])
    cut = [
        msgspec.structs.replace(event, key=event.key[:8])
        if isinstance(event, RecvUpcall)
        else event
        for event in events
    ]
    (found,) = join(cut).sets
    assert found.dp_upcall is trips[0][0]


def test_batches_without_operations_end_after_64() -> None:
    events, _ = World(4).run([64, 1, 64])
    received = [event for event in events if isinstance(event, RecvUpcall) and event.tid == 1]
    assert join(received).batch_sizes == (64, 64)


def test_the_handler_filter_keeps_the_kernels_upcalls() -> None:
    events, _ = World(5).run([3, 4])
    joined = join(events, ["handler2"])
    assert joined.total[DpUpcall] == 7
    assert joined.total[RecvUpcall] == 4
    assert {found.recv_upcall.comm for found in joined.sets} == {"handler2"}
    assert all(found.dp_upcall for found in joined.sets)


def test_upcalls_of_handlers_not_asked_for_are_left_out() -> None:
    # The same packet once more, a second later, which another handler receives.
    (first, _) = World(6).run([1])
    again = [
        msgspec.structs.replace(
            event,
            time_ns=event.time_ns + 10**9,
            **({} if isinstance(event, DpUpcall) else {"tid": 99, "comm": "handler99"}),
        )
        for event in first
    ]
    (found,) = join([*first, *again], ["handler99"]).sets
    assert found.dp_upcall is next(event for event in again if isinstance(event, DpUpcall))


events_of_anything = st.one_of(
    st.builds(DpUpcall, linear_len=st.integers(0, 80), packet=st.binary(max_size=80)),
    st.builds(RecvUpcall, packet=st.binary(max_size=80), key=st.binary(max_size=40)),
    st.builds(FlowPut),
    st.builds(FlowExecute),
    st.builds(PacketCmdExecute),
)


@given(st.lists(events_of_anything, max_size=40))
def test_any_events_are_joined_without_using_one_twice(events: list[Event]) -> None:
    joined = join(events)
    used = [id(event) for found in joined.sets for event in found.events]
    assert len(used) == len(set(used))
    assert sum(joined.batch_sizes) == sum(isinstance(event, RecvUpcall) for event in events)
    assert all(joined.usable[kind] <= joined.total[kind] for kind in joined.usable)


@pytest.mark.parametrize(
    ("captured", "flows"), [(100, ["A", None, None, "B", "C"]), (64, [None] * 5)]
)
def test_flow_of_a_key_that_was_cut_is_nobodys(captured: int, flows: list[str | None]) -> None:
    """Of packets that are dropped puts have no execute behind them; equal ones put one flow."""
    time_ns = count(START_NS)

    def where() -> dict[str, Any]:
        return {"time_ns": next(time_ns), "cpu": 0, "tid": 1, "comm": "handler1"}

    def key(packet: str) -> dict[str, Any]:
        return {"key": (bytes(64) + packet.encode() * 36)[:captured], "key_len": 100}

    received = [
        RecvUpcall(
            **where(), **key(each), datapath="system@ovs", kind="miss", packet=b"", packet_len=60
        )
        for each in "AAABC"
    ]
    puts = [FlowPut(**where(), **key(each), ufid=each) for each in "ABC"]
    found = [
        each.flow_put.ufid if each.flow_put and each.is_own_flow else None
        for each in join([*received, *puts]).sets
    ]
    assert found == flows
