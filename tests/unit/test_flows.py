"""What is made of changes of flows, and what is said of them."""

import io
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec import structs

from kernel_delay.monitors.flows import events, probe
from kernel_delay.monitors.flows.events import (
    REASONS,
    REMEMBERED_NS,
    THRASH_NS,
    FlowChurn,
    FlowEvent,
    reason_names,
    reason_text,
)
from kernel_delay.monitors.flows.probe import decode
from kernel_delay.monitors.flows.report import HEADER, FlowReport, event_lines, json_of, render
from kernel_delay.openvswitch import detrace
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.detrace import rules_in
from kernel_delay.openvswitch.flow_key.text import ufid_text
from kernel_delay.openvswitch.installed import read_version
from kernel_delay.openvswitch.unixctl import Answers
from tests.unit.test_flow_match import KEY, MASK, WRITTEN

NS_PER_MS = 1_000_000
CREATED_NS = 5 * 10**12
UFID = "5bacfca9-fe5f-4dea-ad00-7be56e56bcde"
DELETED = FlowEvent(
    time_ns=CREATED_NS + 12_300 * NS_PER_MS,
    tid=17,
    comm="revalidator9",
    change="delete",
    in_sweep=False,
    reason="flow_idle",
    reason_number=3,
    datapath="system@ovs-system",
    ufid=UFID,
    layer="ovs",
    pmd_id=0,
    created_ns=CREATED_NS,
    used_ns=CREATED_NS + 2_200 * NS_PER_MS,
    n_packets=1234,
    n_bytes=98_765,
    key=KEY,
    key_len=len(KEY),
    mask=MASK,
    mask_len=len(MASK),
)


def made(after: FlowEvent | None = None, later_ns: int = 0) -> FlowEvent:
    """The flow as it is made, or made again after it was deleted."""
    time_ns = CREATED_NS if after is None else after.time_ns + later_ns
    return structs.replace(
        after or DELETED,
        change="insert",
        time_ns=time_ns,
        created_ns=time_ns,
        reason=None,
        reason_number=0,
    )


def test_a_deletion_is_two_lines_of_80_columns() -> None:
    first, second, third = event_lines(DELETED, match=True, came_back=False)
    assert len(HEADER) == len(first) == 80
    assert first.split() == ["5012.300", UFID, "delete", "flow_idle", "12.3"]
    assert second == (
        "    1,234 packets, 98,765 bytes, idle 10.1 s, in the dump, by revalidator9 (17)"
    )
    assert third == f"    system@ovs-system, ovs: {WRITTEN}"
    assert event_lines(DELETED, match=False, came_back=False) == [first, second]


def test_an_insertion_is_one_line() -> None:
    (line,) = event_lines(made(), match=False, came_back=False)
    assert line.split() == ["5000.000", UFID, "insert", "-", "-"]
    (line,) = event_lines(made(), match=False, came_back=True)
    assert "came back" in line


def test_what_was_not_captured_is_reported() -> None:
    cut = structs.replace(DELETED, mask=MASK[:16])
    *_, match = event_lines(cut, match=True, came_back=False)
    assert f"<16 of the mask's {len(MASK)} bytes captured>" in match
    never = structs.replace(DELETED, used_ns=None, n_packets=0, in_sweep=True, layer="")
    _, use, match = event_lines(never, match=True, came_back=False)
    assert use == "    0 packets, in the sweep, by revalidator9 (17)"
    assert "not in it yet" in match


# Of each release from 3.4.0 to 3.7.1, by hand: the last of 3.4.0 is 10.
@pytest.mark.parametrize("version", [(3, 4), (3, 5), (3, 6), (3, 7), (4, 0)])
def test_reasons_have_the_names_of_their_version(version: tuple[int, int]) -> None:
    names = reason_names(version)
    assert (names[0], names[3], names[7], names[10]) == (
        *("none", "flow_idle", "purge", "xlation_error"),
    )
    assert len(names) == 12


@pytest.mark.parametrize("version", [None, (3, 3), (4, 1), (17, 0)])
def test_unknown_ovs_version_has_no_delete_reasons(version: tuple[int, int] | None) -> None:
    assert reason_names(version) == {}


def test_a_reason_without_a_name_is_a_number() -> None:
    unknown = structs.replace(DELETED, reason=None, reason_number=13)
    assert reason_text(unknown) == "unknown reason 13"
    (line, _) = event_lines(unknown, match=False, came_back=False)
    assert "unknown reason 13" in line


def test_flow_back_within_a_second_came_back() -> None:
    churn = FlowChurn()
    assert not churn.take(made())
    assert not churn.take(DELETED)
    assert churn.take(made(DELETED, THRASH_NS))
    assert not churn.take(structs.replace(DELETED, time_ns=DELETED.time_ns + 2 * THRASH_NS))
    later = structs.replace(DELETED, time_ns=DELETED.time_ns + 2 * THRASH_NS)
    assert not churn.take(made(later, THRASH_NS + 1))
    # Another datapath's is another flow.
    churn.take(later)
    assert not churn.take(structs.replace(made(later), datapath="netdev@ovs-netdev"))
    assert (churn.came_back, churn.returned) == (1, {UFID: 1})


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_DELETED", 3)
    monkeypatch.setattr(events, "MOST_RETURNED", 2)
    churn = FlowChurn()
    for number in range(5):
        churn.take(structs.replace(DELETED, ufid=str(number)))
    back = [churn.take(structs.replace(made(DELETED), ufid=str(number))) for number in range(5)]
    assert back == [False, False, True, True, True]
    assert (churn.came_back, len(churn.returned)) == (3, 2)


def test_a_deleted_flow_is_not_remembered_for_ever() -> None:
    churn = FlowChurn()
    churn.take(DELETED)
    later_ns = DELETED.time_ns + REMEMBERED_NS
    churn.take(structs.replace(DELETED, ufid="other", time_ns=later_ns))
    assert churn.remembered == 2
    churn.take(structs.replace(DELETED, ufid="third", time_ns=later_ns + 1))
    assert churn.remembered == 2


def test_same_flow_of_another_pmd_thread_is_another_flow() -> None:
    churn = FlowChurn()
    first, second = (structs.replace(DELETED, pmd_id=number) for number in (1, 2))
    churn.take(first)
    assert not churn.take(made(second, NS_PER_MS))
    again = structs.replace(made(second, NS_PER_MS), pmd_id=1)
    assert churn.take(again)
    assert churn.returned == {UFID: 1}


def test_too_expensive_flows_are_explained() -> None:
    churn = FlowChurn()
    churn.take(structs.replace(DELETED, reason="too_expensive"))
    assert "fewer packets per second than min-revalidate-pps" in render(churn, 0, 0)
    assert "min-revalidate-pps" not in render(FlowChurn(), 0, 0)


def test_the_summary_has_reasons_ages_and_what_came_back() -> None:
    churn = FlowChurn()
    for event in (
        made(),
        DELETED,
        made(DELETED),
        structs.replace(DELETED, reason="purge", ufid="other"),
        structs.replace(DELETED, change="modify"),
    ):
        churn.take(event)
    text = render(churn, flows_before=1000, passed_over=7)
    assert text.splitlines()[:5] == [
        "2 flows made, 2 deleted, 1 modified; 1,000 were there before",
        "7 events of other flows or reasons are not among them",
        "deleted, by reason:",
        "  flow_idle         1",
        "  purge             1",
    ]
    assert f"  [8192, 16384)  2 |{'@' * 52}|" in text
    assert text.endswith(f"within the second before:\n  {UFID} once")
    assert max(map(len, text.splitlines())) <= 80
    assert render(FlowChurn(), 0, 0) == ("0 flows made, 0 deleted, 0 modified; 0 were there before")


def test_what_was_missed_is_reported() -> None:
    assert FlowReport.missed_lines({"flow_events": 0, "untracked": 0, "unknown_results": 0}) == []
    lines = FlowReport.missed_lines({"flow_events": 3, "untracked": 1000, "unknown_results": 1})
    assert [line.split()[0] for line in lines] == ["3", "1,000", "1"]


def test_a_new_flow_has_its_rules_below_it() -> None:
    counts = "duration=2s, n_packets=5, n_bytes=530, n_offload_packets=0, n_offload_bytes=0"
    rules = (
        f"cookie=0x5, {counts}, hard_timeout=1, priority=1,in_port=1,actions=resubmit(,8),\x1b[2J",
        f"table_id=8, {counts}, actions=ct(commit,nat(src),exec(move:a->b,drop)),drop",
        "anything else",
    )
    answer = "\n".join(("UFID was not found for system@ovs-system", *rules))
    event = structs.replace(made(), rules=rules_in(answer))
    assert event.rules == rules
    assert event_lines(event, match=False, came_back=False)[1:] == [
        "     0. in_port=1, priority 1, cookie 0x5",
        "        resubmit(,8)",
        "        \\x1b[2J",
        "     8. priority 32768",
        "        ct(commit,nat(src),exec(move:a->b,drop))",
        "        drop",
        "    anything else",
    ]


@pytest.mark.parametrize(("age_ms", "newer"), [(900, 0), (1600, 1), (2000, 2)])
def test_rules_that_are_surely_newer_are_counted(
    age_ms: int, newer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = (
        *("duration=0s, n_packets=1, actions=drop", "cookie=0x1, duration=1s, n_packets=0,"),
        "br0",
    )
    monkeypatch.setattr(time, "monotonic_ns", lambda: CREATED_NS + age_ms * NS_PER_MS)
    remark = [f"{newer} of these rules came after the flow"] if newer else []
    assert detrace.with_newer(rules, CREATED_NS) == (*rules, *remark)


def test_what_is_left_out_of_rules_is_said() -> None:
    long = "a" * (detrace.LONGEST_RULE + 7)
    found = rules_in("\n".join([long, *["b"] * detrace.MOST_RULES]))
    assert found[0] == f"{long[:-7]}… (7 characters more)"
    assert found[1] == "b"
    assert (len(found), found[-1]) == (detrace.MOST_RULES + 1, "1 more rule")


@pytest.mark.parametrize(
    ("pmd_id", "arguments"), [(3, (f"ufid:{UFID}", "pmd=3")), ((1 << 32) - 1, (f"ufid:{UFID}",))]
)
def test_rules_are_asked_of_the_thread_that_has_the_flow(
    pmd_id: int, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    class Answering:
        def __init__(self, pid: int) -> None:
            assert pid == 42

        def ask(self, commands: Iterable[tuple[str, ...]]) -> Answers:
            asked.extend(commands)
            answers = Answers()
            answers.texts[asked[0]] = "table=0 actions=drop\n"
            return answers

        def receive(self, within_s: float) -> None:
            pass

    monkeypatch.setattr(detrace, "Unixctl", Answering)
    flow = UFID, pmd_id
    assert detrace.Detrace(42).rules([flow]) == {flow: ("table=0 actions=drop",)}
    assert asked == [("ofproto/detrace", *arguments)]


def test_new_flow_waits_for_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open vSwitch knows them after a second packet; what comes behind waits too."""
    known: dict[detrace.Flow, tuple[str, ...]] = {}
    asked: list[detrace.Flow] = []

    class Knowing:
        def rules(self, flows: Sequence[detrace.Flow]) -> Mapping[detrace.Flow, tuple[str, ...]]:
            asked.extend(flows)
            return known

    new, late = made(), DELETED
    ruled = detrace.RuledEvents(
        cast(detrace.Detrace, Knowing()), probe._flow_of, probe._with_rules, probe._is_modified
    )
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    ruled.hold([new, late])
    assert list(ruled.release()) == []
    known[new.ufid, new.pmd_id] = ("table=0",)
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 + detrace.WAITS_S)
    assert list(ruled.release()) == [structs.replace(new, rules=("table=0",)), late]
    assert asked == [(new.ufid, new.pmd_id)]
    # What has its rules at once, or needs none, does not wait.
    modified = structs.replace(new, change="modify")
    ruled.hold([modified, late])
    assert list(ruled.release()) == [structs.replace(modified, rules=("table=0",)), late]
    assert asked == [(new.ufid, new.pmd_id)] * 2


@pytest.mark.parametrize(("passes_s", "asked"), [(0.1, 60), (4.0, 40)])
def test_the_end_does_not_wait_for_all_rules(
    passes_s: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it is asked so much time passes."""
    now = 0.0

    class Slow:
        unanswered = 0

        def rules(self, flows: Sequence[detrace.Flow]) -> Mapping[detrace.Flow, tuple[str, ...]]:
            nonlocal now
            now += passes_s
            return dict.fromkeys(flows, ("table=0",))

    slow = Slow()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ruled = detrace.RuledEvents(
        cast(detrace.Detrace, slow), probe._flow_of, probe._with_rules, probe._is_modified
    )
    ruled.hold([structs.replace(made(), ufid=f"{number:08}") for number in range(60)])
    events = list(ruled.rest())
    assert [event.ufid for event in events] == [f"{number:08}" for number in range(60)]
    assert sum(bool(event.rules) for event in events) == asked
    assert ruled.unanswered == 60 - asked


def test_the_json_has_the_match_in_words() -> None:
    found = json_of(DELETED, came_back=False)
    assert found["match"] == WRITTEN
    assert found["reason"] == "flow_idle"
    assert not {"key", "mask"} & found.keys()


def record(key_bytes: int = 256, **fields: Any) -> bytes:
    """A record of the programs, as they lay it out."""
    size = ffi.sizeof("struct flow_event")
    data = bytearray(size + 2 * key_bytes)
    found = ffi.from_buffer("struct flow_event *", data)
    found.event.time_ns = DELETED.time_ns
    found.created_ms = CREATED_NS // NS_PER_MS
    found.key_len = found.key_size = len(KEY)
    found.mask_len = found.mask_size = len(MASK)
    for index, word in enumerate((0x5BACFCA9, 0xFE5F4DEA, 0xAD007BE5, 0x6E56BCDE)):
        found.ufid[index] = word
    for name, value in fields.items():
        setattr(found, name, value)
    data[size : size + len(KEY)] = KEY
    data[size + key_bytes : size + key_bytes + len(MASK)] = MASK
    return bytes(data)


def decoded(*, kept: bool = False, **fields: Any) -> list[FlowEvent]:
    return list(decode(record(**fields), 256, reason_names((3, 5)), kept=kept))


def test_a_record_is_what_became_of_the_flow() -> None:
    (event,) = decoded(result=lib.UKEY_DELETE, reason=7, in_sweep=1, used_ms=5)
    assert (event.change, event.reason, event.in_sweep) == ("delete", "purge", True)
    assert (event.ufid, event.key, event.mask) == (UFID, KEY, MASK)
    assert (event.created_ns, event.used_ns) == (CREATED_NS, 5 * NS_PER_MS)
    assert event.age_ns == 12_300 * NS_PER_MS


def test_a_new_flow_is_an_event_of_its_own() -> None:
    inserted, deleted = decoded(result=lib.UKEY_DELETE, reason=len(REASONS), is_new=1)
    assert (inserted.change, inserted.time_ns, inserted.reason) == ("insert", CREATED_NS, None)
    assert (deleted.change, deleted.reason, deleted.reason_number) == ("delete", None, 12)
    (inserted,) = decoded(result=lib.UKEY_KEEP, is_new=1)
    assert inserted.change == "insert"
    _, keep = decoded(result=lib.UKEY_KEEP, is_new=1, kept=True)
    assert keep.change == "keep"
    assert decoded(result=99) == []


def test_a_ufid_is_written_as_a_uuid() -> None:
    assert ufid_text(0x04BAF066, 0xF73346F3, 0xA563A4FD, 0xADDEB4FD) == (
        "04baf066-f733-46f3-a563-a4fdaddeb4fd"
    )


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\0%s (Open vSwitch) 3.5.0\0", (3, 5)),
        (b"\0Open vSwitch Library 4.0.1\0", (4, 0)),
        (bytes((1 << 20) - 9) + b"(Open vSwitch) 3.17.90\0", (3, 17)),
        (b"(Open vSwitch) %s\0 1.2.3", None),
        (b"", None),
    ],
)
def test_the_version_is_in_the_file(content: bytes, version: tuple[int, int] | None) -> None:
    assert read_version(io.BytesIO(content)) == version
