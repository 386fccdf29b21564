"""The rounds of Open vSwitch's revalidators, and what Open vSwitch makes of each.

    start_dump ─ dump: flow by flow, kept or not ─ sweep ─ sweep_done ─ wait ─ start_dump ─ …

A datapath has a team of revalidators, and one of them leads: it starts each round, waits
until all have done their part, and then sets how many flows there may be by how long the dump
took (udpif_revalidator(), ofproto/ofproto-dpif-upcall.c, Open vSwitch 2.17 to 4.0).
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct, structs

from kernel_delay.analysis.histogram import Quantiles
from kernel_delay.errors import InputError
from kernel_delay.formatting import NS_PER_MS
from kernel_delay.recording.records import Events

# udpif_revalidator(): a dump longer than the first divides the flow limit, one longer than the
# second cuts it to three quarters, and one shorter than the third raises it, all in ms.
SCALED_MS, REDUCED_MS, GROWN_MS = 2000, 1300, 1000
GROWTH, LOWEST_LIMIT = 1000, 1000

LATE_NS = 100 * NS_PER_MS
"""A round that starts so much later than it was due is reported: upstream's own measure."""

MOST_DATAPATHS = 64
OTHERS = "other datapaths"

SLOWEST_KEPT = 5
"""Checks that a summary shows."""

RECENT = 16
"""Rounds of which a datapath's lengths are kept one by one."""

LimitChange = Literal["scaled", "reduced", "grew", "set"]
"""Why the flow limit is another: `set` is by whoever configured it."""


class FlowResults(Struct, frozen=True):
    """How many flows had which result.

    Attributes:
        kept: Flows that were kept.
        deleted: Flows that were deleted.
        modified: Flows that were modified.
        other: Results with a number that is not known.
    """

    kept: int
    deleted: int
    modified: int
    other: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.kept + self.deleted + self.modified + self.other


CheckResult = Literal["kept", "deleted", "modified", "other"]


class FlowCheck(Struct, frozen=True):
    """A check of one flow against the OpenFlow tables.

    Attributes:
        tid: The revalidator that made it.
        ufid: The ID of the flow.
        ns: The length of the check, in ns.
        waited_ns: The part of it in which the thread waited for a CPU, in ns. None: not known.
        n_packets: The packets of the flow up to the check before.
        age_ms: The age of the flow at the end of the round, in ms.
        result: What became of the flow. "other": a result with a number that is not known.
    """

    tid: int
    ufid: str
    ns: int
    waited_ns: int | None
    n_packets: int
    age_ms: int
    result: CheckResult

    @property
    def work_ns(self) -> int:
        """Its length without the waits for a CPU, in ns."""
        return self.ns - (self.waited_ns or 0)


class FlowChecks(Struct, frozen=True):
    """The checks of flows against the OpenFlow tables in a round, by all revalidators.

    Attributes:
        count: The number of checks.
        ns: Their lengths added up, in ns. Several threads check at the same time.
        waited_ns: The part of it in which the threads waited for a CPU, in ns. None: not known.
        slowest: The checks that took longest without these waits, longest first.
    """

    count: int
    ns: int
    waited_ns: int | None
    slowest: tuple[FlowCheck, ...]


class UdpifState(Struct, frozen=True):
    """The state of a datapath at the end of a round, from its struct udpif.

    Attributes:
        avg_n_flows: The average number of flows.
        max_n_flows: The highest number of flows.
        flow_limit: The flow limit at the end of the round.
        flow_limit_before: The flow limit at the start of the round.
        dump_duration_ms: Open vSwitch's own length of the round, in ms, from which it sets the
            limit. 1: a millisecond or less.
    """

    avg_n_flows: int
    max_n_flows: int
    flow_limit: int
    flow_limit_before: int
    dump_duration_ms: int


class LeaderTime(Struct, frozen=True):
    """Where the time of the leader went in the round.

    The parts sum up to the round.

    Attributes:
        run_ns: On a CPU, in ns.
        runnable_ns: Waiting for a CPU, in ns.
        blocked_ns: Asleep, in ns. This includes waits for the other revalidators.
    """

    run_ns: int
    runnable_ns: int
    blocked_ns: int


class RevalidatorRound(Struct, frozen=True):
    """A completed round of Open vSwitch's revalidators.

    Attributes:
        datapath: The name of the datapath. If it cannot be read: the address of its struct udpif.
        tid: The leader of the round.
        comm: The name of the leader.
        start_ns: The start (CLOCK_MONOTONIC).
        stop_ns: The end (CLOCK_MONOTONIC).
        previous_stop_ns: The end of the previous round (CLOCK_MONOTONIC). None: no round was seen
            before.
        n_flows: The number of flows at the start.
        dumped: The results of the dump. None: not counted.
        swept: The results of the sweep after the dump. A kept flow is in both. None: not counted.
        revalidated: How often a flow was checked against the OpenFlow tables. None: not counted.
        poll_wait_ms: The intended time from this start to the next one, in ms.
        state: The state from struct udpif. None: its layout is not as known.
        leader_time: Where the time of the leader went. None: context switches were missed.
        checks: How long the checks of flows took. None: they were not timed.
        removed: Flows that the sweep removed from Open vSwitch's own table: those that the dump
            or the sweep deleted, or the datapath refused. Counted without USDT probes. None: not
            counted.
    """

    datapath: str
    tid: int
    comm: str
    start_ns: int
    stop_ns: int
    previous_stop_ns: int | None
    n_flows: int
    dumped: FlowResults | None
    swept: FlowResults | None
    revalidated: int | None
    poll_wait_ms: int
    state: UdpifState | None
    leader_time: LeaderTime | None
    checks: FlowChecks | None = None
    removed: int | None = None

    @property
    def duration_ns(self) -> int:
        """From its start to its end."""
        return self.stop_ns - self.start_ns

    @property
    def waited_ns(self) -> int | None:
        """From the end of the round before to its start."""
        return None if self.previous_stop_ns is None else self.start_ns - self.previous_stop_ns

    @property
    def deleted(self) -> int | None:
        """Flows that it deleted, in the dump or in the sweep."""
        if self.dumped is None and self.swept is None:
            return self.removed
        return sum(each.deleted for each in (self.dumped, self.swept) if each is not None)

    def like(self, before: "RevalidatorRound") -> bool:
        """Whether all but its times is as in the round before, with no more of a change."""
        return self._figures() == before._figures()

    def _figures(self) -> tuple[object, ...]:
        state = self.state
        limits = None if state is None else (state.flow_limit, state.max_n_flows)
        results = self.dumped, self.swept, self.revalidated, self.removed
        return self.n_flows, *results, self.poll_wait_ms, limits


def together(checks: Sequence[FlowChecks], most: int) -> FlowChecks:
    """All checks, with the `most` that took longest: of each flow its longest."""
    longest: dict[str, FlowCheck] = {}
    every = (check for each in checks for check in each.slowest)
    for check in sorted(every, key=lambda check: -check.work_ns):
        longest.setdefault(check.ufid, check)
    waited_ns = [each.waited_ns for each in checks if each.waited_ns is not None]
    return FlowChecks(
        count=sum(each.count for each in checks),
        ns=sum(each.ns for each in checks),
        waited_ns=sum(waited_ns) if len(waited_ns) == len(checks) else None,
        slowest=tuple(longest.values())[:most],
    )


def limit_change(found: RevalidatorRound) -> LimitChange | None:
    """Why the flow limit is another than at the start; None if it is not, or not known."""
    state = found.state
    if state is None or state.flow_limit == state.flow_limit_before:
        return None
    before, duration_ms = state.flow_limit_before, state.dump_duration_ms
    change: LimitChange
    if duration_ms > SCALED_MS:
        change, wanted = "scaled", before // (duration_ms // 1000)
    elif duration_ms > REDUCED_MS:
        change, wanted = "reduced", before * 3 // 4
    elif duration_ms < GROWN_MS:
        change, wanted = "grew", before + GROWTH
    else:
        return "set"
    return change if state.flow_limit == max(wanted, LOWEST_LIMIT) else "set"


class SinceLast(Struct, frozen=True):
    """What is seen of a round beside the one before.

    `late_ns` is how much later than due it started, `limit_set_from` what the flow limit was
    before it was set between the two. Each is None where it is not known, or was not.
    """

    late_ns: int | None = None
    limit_set_from: int | None = None


class DatapathRounds:
    """The rounds of one datapath, as they come, in bounded memory."""

    def __init__(self, number: int, datapath: str, first_ns: int) -> None:
        """The datapath is the `number`th that was seen, from 1 on; its first round's start."""
        self.number = number
        self.datapath = datapath
        self.first_ns = first_ns
        self.last: RevalidatorRound | None = None
        self.durations, self.waits, self.poll_waits = Quantiles(), Quantiles(), Quantiles()
        self.flows, self.revalidated = Quantiles(), Quantiles()
        self.dumped, self.swept = Counter[str](), Counter[str]()
        self.counted_dumped = self.counted_swept = 0
        self.removed: int | None = None
        self.recent = deque[int](maxlen=RECENT)
        self.changes = Counter[LimitChange]()
        self.time = Counter[str]()
        self.checks = FlowChecks(0, 0, 0, ())

    @property
    def rounds(self) -> int:
        """How many there were."""
        return self.durations.count

    def take(self, found: RevalidatorRound) -> SinceLast:
        """Count the next."""
        since = self._since_last(found)
        if since.limit_set_from is not None:
            self.changes["set"] += 1
        self.last = found
        self.durations.add(found.duration_ns)
        self.recent.append(found.duration_ns)
        self.poll_waits.add(found.poll_wait_ms * NS_PER_MS)
        self.flows.add(found.n_flows)
        if found.waited_ns is not None:
            self.waits.add(found.waited_ns)
        if found.revalidated is not None:
            self.revalidated.add(found.revalidated)
        if found.dumped is not None:
            self.counted_dumped += 1
            _count(self.dumped, found.dumped)
        if found.swept is not None:
            self.counted_swept += 1
            _count(self.swept, found.swept)
        if found.removed is not None:
            self.removed = (self.removed or 0) + found.removed
        if found.checks is not None:
            self.checks = together([self.checks, found.checks], SLOWEST_KEPT)
        if (change := limit_change(found)) is not None:
            self.changes[change] += 1
        if found.leader_time is not None:
            self.time["run"] += found.leader_time.run_ns
            self.time["runnable"] += found.leader_time.runnable_ns
            self.time["blocked"] += found.leader_time.blocked_ns
        return since

    def _since_last(self, found: RevalidatorRound) -> SinceLast:
        last = self.last
        if last is None or found.previous_stop_ns != last.stop_ns:
            return SinceLast()
        due_ns = last.start_ns + last.poll_wait_ms * NS_PER_MS
        late_ns = max(found.start_ns - max(due_ns, last.stop_ns), 0)
        if last.state is None or found.state is None:
            return SinceLast(late_ns)
        limit = last.state.flow_limit
        was_set = limit != found.state.flow_limit_before
        return SinceLast(late_ns, limit if was_set else None)

    def share(self, state: str) -> Fraction | None:
        """Of the leader's time in rounds, how much it was `run`, `runnable` or `blocked`."""
        total = self.time.total()
        return Fraction(self.time[state], total) if total else None


def _count(counter: Counter[str], results: FlowResults) -> None:
    counter["kept"] += results.kept
    counter["deleted"] += results.deleted
    counter["modified"] += results.modified
    counter["other"] += results.other


class Revalidation:
    """The rounds of all datapaths; of those beyond MOST_DATAPATHS together, as OTHERS."""

    def __init__(self) -> None:
        """Start before the first."""
        self._datapaths: dict[str, DatapathRounds] = {}

    @property
    def datapaths(self) -> Mapping[str, DatapathRounds]:
        """By name, in the order they were first seen."""
        return self._datapaths

    @property
    def rounds(self) -> int:
        """Rounds of all."""
        return sum(each.rounds for each in self._datapaths.values())

    def of(self, found: RevalidatorRound) -> DatapathRounds:
        """Those of the datapath of this round."""
        name = found.datapath
        if name not in self._datapaths and len(self._datapaths) >= MOST_DATAPATHS:
            name = OTHERS
        known = self._datapaths.get(name)
        if known is None:
            known = DatapathRounds(len(self._datapaths) + 1, name, found.start_ns)
            self._datapaths[name] = known
        return known


class RevalidatorRounds(Events, frozen=True, tag="revalidator_rounds"):
    """Rounds of Open vSwitch's revalidators, in the order of their ends.

    Attributes:
        rounds: The rounds.
    """

    rounds: tuple[RevalidatorRound, ...]

    def measured(self) -> Sequence[RevalidatorRound]:
        """The rounds."""
        return self.rounds

    def check(self) -> None:
        """Raise InputError for a round whose times can't be."""
        for found in self.rounds:
            if not (found.previous_stop_ns or 0) <= found.start_ns <= found.stop_ns:
                raise InputError("a round ended before it began")
            time = found.leader_time
            if time is not None and sum(structs.astuple(time)) != found.duration_ns:
                raise InputError("the leader's time is not its round's length")


RECORD = RevalidatorRounds
