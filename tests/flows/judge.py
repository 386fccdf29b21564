"""What the monitors recorded, held against what Open vSwitch, the kernel and ovs-dpctl said."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

import kernel_delay
from kernel_delay.monitors.datapath_ops.events import Operation, OperationEvent
from kernel_delay.monitors.datapath_ops.message import read_reply, read_request
from kernel_delay.monitors.flows.events import FlowChange
from kernel_delay.monitors.revalidator.events import RevalidatorRound
from tests.flows.traffic import MONITORS, NOTES, Notes, Period, State, recording
from tests.integration.test_datapath_ops_command import written_anew

NS_PER_MS = 1_000_000

# What is printed for parts that cannot be decoded (docs/open-vswitch/datapath-ops.md), and for
# attributes by number.
_NOT_DECODED = re.compile(r"<|attribute\d|action\d")
_REFUSALS = (("flow_new", "EEXIST"), ("flow_del", "ENOENT"), ("flow_set", "ENOENT"))


_T = TypeVar("_T")


class Change(Struct):
    """A line of flows."""

    time_ns: int
    change: FlowChange
    reason: str | None
    ufid: str
    match: str


class Asked(Struct):
    """A line of datapath-ops."""

    time_ns: int
    operation: Operation
    answer: str
    ufid: str | None
    match: str | None
    actions: str | None
    packet: str | None
    others: list[str]
    problem: str | None


class Judged(NamedTuple):
    """A period: what is told of it, and what is wrong."""

    period: Period
    made: int
    changed: int
    rounds: int
    operations: int
    wrong: tuple[str, ...]


class Run(NamedTuple):
    """All of a guest's."""

    notes: Notes
    periods: tuple[Judged, ...]
    answers: Counter[tuple[str, str]]
    messages: int
    wrong: tuple[str, ...]


def judge(folder: Path) -> Run:
    """Read all that is in the folder."""
    notes = msgspec.json.decode((folder / NOTES).read_bytes(), type=Notes)
    rounds = _reported(folder, "revalidator", RevalidatorRound)
    changes = _reported(folder, "flows", Change)
    asked = _reported(folder, "datapath-ops", Asked)
    messages = list(_messages(folder))
    periods = tuple(judged(period, rounds, changes, asked) for period in notes.periods)
    refused = Counter[tuple[str, str]](
        (line.operation, line.answer)
        for line in asked
        if line.time_ns > notes.answers_ns and line.answer != "ok"
    )
    wrong = [
        *_not_read(messages, asked),
        *_not_counted(notes, asked),
        *_lost(folder),
        *_wrong_refusals(refused),
    ]
    return Run(notes, periods, refused, len(messages), tuple(wrong))


def _reported(folder: Path, command: str, kind: type[_T]) -> list[_T]:
    """What `report` has of it."""
    program = (sys.executable, "-m", "kernel_delay", "report", "--json")
    done = subprocess.run(
        [*program, str(recording(folder, command))], check=True, stdout=subprocess.PIPE
    )
    return msgspec.json.Decoder(kind).decode_lines(done.stdout)


def _messages(folder: Path) -> Iterator[OperationEvent]:
    for event in kernel_delay.open_recording(recording(folder, "datapath-ops")).events():
        assert isinstance(event, OperationEvent)
        yield event


def judged(
    period: Period,
    rounds: Sequence[RevalidatorRound],
    changes: Sequence[Change],
    asked: Sequence[Asked],
) -> Judged:
    # An insertion's time is of a clock that has but milliseconds.
    own = [
        line for line in changes if period.begun_ns - NS_PER_MS <= line.time_ns <= period.ended_ns
    ]
    operations = [line for line in asked if period.begun_ns <= line.time_ns <= period.ended_ns]
    in_rounds = [line for line in rounds if period.begun_ns <= line.stop_ns <= period.ended_ns]
    wrong = [
        *_wrong_changes(period, own),
        *_wrong_operations(period, operations, own),
        *_wrong_rounds(period, in_rounds),
    ]
    caused = [
        line
        for line in own
        if line.change == period.change and period.caused_ns <= line.time_ns < period.purged_ns
    ]
    made = [line for line in own if line.change == "insert"]
    return Judged(period, len(made), len(caused), len(in_rounds), len(operations), tuple(wrong))


def _wrong_changes(period: Period, lines: Sequence[Change]) -> Iterator[str]:
    before, after = _ufids(period.before), _ufids(period.after)
    made = Counter(line.ufid for line in lines if line.change == "insert")
    yield from _differ("flows that were made", made, Counter(before))
    others = [line for line in lines if line.change != "insert"]
    caused = [line for line in others if line.time_ns < period.purged_ns]
    expected = before if period.change == "modify" else before - after
    yield from _differ(
        f"flows and what became of them by {period.name}",
        ((line.ufid, line.change, line.reason) for line in caused),
        ((ufid, period.change, period.reason) for ufid in expected),
    )
    purged = [line for line in others if line.time_ns >= period.purged_ns]
    yield from _differ(
        "flows that were purged",
        ((line.ufid, line.change, line.reason) for line in purged),
        ((ufid, "delete", "purge") for ufid in after),
    )
    if period.change == "delete" and after:
        yield f"{len(after)} flows are there after {period.name}"
    matches = [line.match for line in lines if line.change == "insert"]
    dumped = [match for match, _ in _matches(period.before)]
    yield from _differ("matches of flows that were made", matches, dumped)


def _wrong_operations(
    period: Period, lines: Sequence[Asked], changes: Sequence[Change]
) -> Iterator[str]:
    new = [line for line in lines if line.operation == "flow_new"]
    yield from _differ(
        "flow_new, and flows of dpctl/dump-flows",
        ((line.match, _actions(line)) for line in new if line.answer == "ok"),
        _matches(period.before),
    )
    yield from _differ(
        "flow_new, and UFIDs of ovs-dpctl",
        (line.ufid for line in new),
        _ufids(period.before),
    )
    # A flow that the kernel no longer has can't be deleted. A deletion of no flow is one of all.
    missing = period.reason == "flow_missing_dp"
    answer = "ENOENT" if missing else "ok"
    yield from _differ(
        "flow_del, and flows that were deleted",
        ((line.ufid, line.answer) for line in lines if _deletes_one(line)),
        ((line.ufid, answer) for line in changes if line.change == "delete"),
    )
    modified = [line for line in lines if line.operation == "flow_set"]
    yield from _differ(
        "flow_set, and flows that were modified",
        ((line.ufid, line.answer) for line in modified),
        ((line.ufid, "ok") for line in changes if line.change == "modify"),
    )
    if period.change == "modify":
        yield from _differ(
            "flow_set, and flows of dpctl/dump-flows after it",
            ((line.match, _actions(line)) for line in modified),
            _matches(period.after),
        )
    executed = [line for line in lines if line.operation == "packet_execute"]
    yield from _differ(
        "packets that were executed, and flows",
        (_ports(line.packet or "") for line in executed),
        (_ports(match) for match, _ in _matches(period.before)),
    )


def _wrong_rounds(period: Period, rounds: Sequence[RevalidatorRound]) -> Iterator[str]:
    for state in (period.before, period.after):
        yield from _wrong_state(state, rounds)
    caused = [each for each in rounds if period.caused_ns <= each.stop_ns < period.purged_ns]
    before, after = _ufids(period.before), _ufids(period.after)
    deleted = sum(each.deleted or 0 for each in caused)
    if deleted != len(before - after):
        yield f"revalidator: {deleted} deleted, {len(before - after)} by the dumps"
    results = [part for each in caused for part in (each.dumped, each.swept) if part is not None]
    modified = sum(part.modified for part in results)
    if modified != (len(before) if period.change == "modify" else 0):
        yield f"revalidator: {modified} modified"
    if sum(part.other for part in results):
        yield "revalidator: results of numbers that are not known"


def _wrong_state(state: State, rounds: Sequence[RevalidatorRound]) -> Iterator[str]:
    """Rounds that began and ended as it was said: there is one at least."""
    shown = re.search(
        r"current (\d+)\) \(avg (\d+)\) \(max (\d+)\) \(limit (\d+)\)", state.upcall_show
    )
    flows = re.search(r"flows: (\d+)", state.dpctl_show)
    assert shown is not None
    assert flows is not None
    current, average, maximum, limit = map(int, shown.groups())
    keys = sum(map(int, re.findall(r"\(keys (\d+)\)", state.upcall_show)))
    if not current == int(flows[1]) == keys == len(state.short) == len(state.with_ufids):
        yield (
            f"upcall/show has {current} flows and {keys} keys, dpctl/show {flows[1]},"
            f" ovs-dpctl {len(state.short)}"
        )
    during = [
        each
        for each in rounds
        if state.begun_ns <= each.start_ns and each.stop_ns <= state.ended_ns
    ]
    if not during:
        yield "revalidator: no round while flows were there"
    for each in during:
        if each.n_flows != current:
            yield f"revalidator: {each.n_flows} flows, upcall/show {current}"
        for part in (each.dumped, each.swept):
            if part is None or (part.kept, part.total) != (keys, keys):
                yield f"revalidator: {part}, and {keys} keys"
        if each.state is None or each.state.max_n_flows != maximum:
            yield f"revalidator: {each.state}, upcall/show at most {maximum}"
    around = [
        each.state
        for each in rounds
        if each.state is not None and each.stop_ns >= state.begun_ns - 5_000 * NS_PER_MS
    ]
    if average not in {each.avg_n_flows for each in around}:
        yield f"revalidator: no round has the average of upcall/show, {average}"
    limits = {each.flow_limit for each in around} | {each.flow_limit_before for each in around}
    if limit not in limits:
        yield f"revalidator: no round has the limit of upcall/show, {limit}"


def _not_read(messages: Sequence[OperationEvent], asked: Sequence[Asked]) -> Iterator[str]:
    """Messages that are not the same bytes when written anew, or not decoded whole."""
    if len(messages) != len(asked):
        yield f"{len(messages)} operations are in the recording, {len(asked)} in its report"
    same = whole = decoded = 0
    for event, line in zip(messages, asked, strict=False):
        request = read_request(event.operation, event.message, event.message_len)
        reply = read_reply(event.reply, event.reply_len)
        parts = [event.message, *([event.reply] if event.reply else [])]
        same += all(written_anew(part) == part for part in parts)
        whole += (
            len(event.message) == event.message_len
            and len(event.reply) == event.reply_len
            and request.problem is None
            and (reply is None or reply.problem is None)
            and line.problem is None
        )
        reported = " ".join([line.match or "", line.actions or "", line.packet or "", *line.others])
        decoded += not _NOT_DECODED.search(reported)
    for count, words in (
        (same, "are the same bytes when written anew"),
        (whole, "were captured and read whole"),
        (decoded, "have all their attributes by name"),
    ):
        if count != len(messages):
            yield f"datapath-ops: of {len(messages)} messages {count} {words}"


def _not_counted(notes: Notes, asked: Sequence[Asked]) -> Iterator[str]:
    """What Open vSwitch counted and we did not."""
    counted = [line for line in asked if line.time_ns < notes.answers_ns]
    found = Counter(line.operation for line in counted)
    ones = sum(map(_deletes_one, counted))
    ours = {
        "dpif_flow_del": ones,
        "dpif_flow_flush": found["flow_del"] - ones,
    }
    if found["packet_execute"] != notes.upcalls:
        yield f"datapath-ops: {found['packet_execute']} executions, {notes.upcalls} upcalls"
    for name, count in ours.items():
        if notes.counted[name] != count:
            yield f"datapath-ops: {count} operations, {name} is {notes.counted[name]}"


def _deletes_one(line: Asked) -> bool:
    return line.operation == "flow_del" and line.ufid is not None


def _lost(folder: Path) -> Iterator[str]:
    for command in MONITORS:
        lost = kernel_delay.open_recording(recording(folder, command)).trailer.lost
        if any(lost.values()):
            yield f"{command}: lost {dict(lost)}"


def _wrong_refusals(found: Counter[tuple[str, str]]) -> Iterator[str]:
    others = [key for key in found.elements() if key[1] != "ENODEV"]
    yield from _differ("refusals", others, _REFUSALS)
    if not any(answer == "ENODEV" for _, answer in found):
        yield "refusals: no ENODEV"


def _differ(what: str, ours: Iterable[object], theirs: Iterable[object]) -> Iterator[str]:
    """One line where the two are not the same, in any order."""
    found, said = Counter(ours), Counter(theirs)
    if found != said:
        only, missing = found - said, said - found
        yield (
            f"{what}: {found.total()} and {said.total()};"
            f" {only.total()} ours alone, such as {next(iter(only), None)};"
            f" {missing.total()} missing, such as {next(iter(missing), None)}"
        )


def _ufids(state: State) -> set[str]:
    found = (re.match(r"ufid:([0-9a-f-]+),", line) for line in state.with_ufids)
    return {match[1] for match in found if match is not None}


def _matches(state: State) -> list[tuple[str, str]]:
    """What each flow matches, and its actions."""
    return [
        (line.partition(", packets:")[0], line.rpartition("actions:")[2]) for line in state.short
    ]


def _actions(line: Asked) -> str:
    """As ovs-dpctl writes them: of a drop it leaves out the reason."""
    return re.sub(r"drop\(\d+\)", "drop", line.actions or "")


def _ports(text: str) -> str:
    found = re.search(r"udp\(src=\d+,dst=\d+\)", text)
    return found[0] if found else text
