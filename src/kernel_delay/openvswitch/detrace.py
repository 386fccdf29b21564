"""Of which OpenFlow rules a flow of the datapath was made: `ovs-appctl ofproto/detrace`.

Open vSwitch has it since 3.4 (ofproto/ofproto-dpif-upcall.c:upcall_unixctl_ofproto_detrace()).
"""

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from kernel_delay.errors import UnavailableError
from kernel_delay.openvswitch.installed import Version
from kernel_delay.openvswitch.unixctl import Command, Unixctl

METHOD = "ofproto/detrace"
SINCE: Version = (3, 4)

ANSWERS_WITHIN_S = 0.5
ASKS_S = 1.0
"""For all flows that are asked for before what has come meanwhile is read."""

REST_WITHIN_S = 5.0
"""At the end, for all flows that still wait: the user waits too."""

MOST_FLOWS = 20
"""That are asked for at once: the main thread answers each."""

MOST_EVENTS = 1000
"""Of those and of others between them, which are held no longer."""

WAITS_S = 1.5
"""How long a new flow waits: Open vSwitch checks flows twice a second by default."""

MOST_RULES = 1000
"""Of a flow: OVN makes some 50 to pass one switch."""

LONGEST_RULE = 1 << 14
"""Of those of a load balancer with hundreds of servers too."""

NOT_PMD = 1 << 31
"""From here on a number is no PMD thread's: NON_PMD_CORE_ID in lib/dpif-netdev.h, PMD_ID_NULL."""

# The datapaths that do not have the flow, and a flow that is being made or deleted.
_NO_RULES = ("UFID was not found for ", "Cache was not found for ")

Flow = tuple[str, int]
"""A flow's UFID, and the PMD thread that has it."""


class Detrace:
    """Asks ovs-vswitchd for the rules of flows.

    Attributes:
        unanswered: for how many there was no answer in time.
    """

    def __init__(self, pid: int) -> None:
        """Connect; UnavailableError where the process has no control socket."""
        self.unanswered = 0
        self._unixctl = Unixctl(pid)

    def close(self) -> None:
        """Disconnect."""
        self._unixctl.close()

    def rules(self, flows: Sequence[Flow]) -> Mapping[Flow, tuple[str, ...]]:
        """Return the rules of these flows; those without an answer in time are left out."""
        commands = {_command(flow): flow for flow in flows[:MOST_FLOWS]}
        answers = self._unixctl.ask(commands)
        if answers.problem is None:
            self._unixctl.receive(ANSWERS_WITHIN_S)
        self.unanswered += len(commands) - len(answers.texts)
        found = {commands[command]: rules_in(text) for command, text in answers.texts.items()}
        return {flow: rules for flow, rules in found.items() if rules}


def connect(pid: int, version: Version | None, notes: list[str]) -> Detrace | None:
    """Connect to process `pid`; a note says what to know of its rules, or why it has none."""
    if version is not None and version < SINCE:
        notes.append("this Open vSwitch has no ofproto/detrace: flows have no rules")
        return None
    try:
        detrace = Detrace(pid)
    except UnavailableError as error:
        notes.append(f"flows have no rules: {error}")
        return None
    notes.append(f"rules of a new flow are those that it has after {WAITS_S:g} s")
    return detrace


_Event = TypeVar("_Event")


def take_ruled(events: Iterable[_Event], ruled: "RuledEvents[_Event] | None") -> Iterator[_Event]:
    """Yield the events; where they are to have rules, those that need not wait any more."""
    if ruled is None:
        yield from events
        return
    ruled.hold(events)
    yield from ruled.release()


class RuledEvents(Generic[_Event]):
    """Events in order, of which those with a flow wait for the flow's rules.

    Open vSwitch knows the rules of a new flow once it has checked it after a second packet.
    """

    def __init__(
        self,
        detrace: Detrace,
        flow_of: Callable[[_Event], Flow | None],
        with_rules: Callable[[_Event, tuple[str, ...]], _Event],
        is_known: Callable[[_Event], bool] = lambda _: False,
    ) -> None:
        """Hold nothing yet.

        `flow_of` is the flow whose rules an event lacks; None: it lacks none. `with_rules` returns
        an event that has them. Of events that `is_known` accepts they are asked for at once.
        """
        self._detrace = detrace
        self._flow_of, self._with_rules, self._is_known = flow_of, with_rules, is_known
        self._held: deque[tuple[float, _Event]] = deque()

    @property
    def unanswered(self) -> int:
        """For how many flows there was no answer in time."""
        return self._detrace.unanswered

    def close(self) -> None:
        """Ask no more."""
        self._detrace.close()

    def hold(self, events: Iterable[_Event]) -> None:
        """Take events; for the rules of those that have them at once there is ASKS_S."""
        ends = time.monotonic() + ASKS_S
        for some in self._batches(events):
            now = time.monotonic()
            ready = self._ask(some, self._is_known) if now < ends else some
            self._held += ((now, each) for each in ready)

    def release(self) -> Iterator[_Event]:
        """Yield those before the first that has not waited WAITS_S, with the rules it has then.

        What there is no time for within ASKS_S comes the next time.
        """
        now = time.monotonic()
        for some in self._batches(self._take_until(now - WAITS_S, now + ASKS_S)):
            yield from self._ask(some, lambda _: True)

    def rest(self) -> Iterator[_Event]:
        """Yield all, with the rules that are known now; REST_WITHIN_S is for that in all."""
        ends = time.monotonic() + REST_WITHIN_S
        for some in self._batches(self._take_until(math.inf, math.inf)):
            if time.monotonic() < ends:
                yield from self._ask(some, lambda _: True)
            else:
                self._detrace.unanswered += sum(self._flow_of(each) is not None for each in some)
                yield from some

    def _take_until(self, held: float, ends: float) -> Iterator[_Event]:
        """Take away the first ones that were held until then, or have no flow, while there is time.

        Both are of time.monotonic().
        """
        while self._held and (self._held[0][0] <= held or self._flow_of(self._held[0][1]) is None):
            if time.monotonic() > ends:
                return
            yield self._held.popleft()[1]

    def _batches(self, events: Iterable[_Event]) -> Iterator[list[_Event]]:
        """Yield the events in order, with as many flows at a time as are asked for at once."""
        some: list[_Event] = []
        flows = 0
        for each in events:
            some.append(each)
            flows += self._flow_of(each) is not None
            if flows == MOST_FLOWS or len(some) == MOST_EVENTS:
                yield some
                some, flows = [], 0
        if some:
            yield some

    def _ask(
        self, events: Sequence[_Event], is_asked: Callable[[_Event], bool]
    ) -> Iterator[_Event]:
        flows = [self._flow_of(each) if is_asked(each) else None for each in events]
        asked = [flow for flow in dict.fromkeys(flows) if flow is not None]
        rules = self._detrace.rules(asked) if asked else {}
        for each, flow in zip(events, flows, strict=True):
            found = rules.get(flow) if flow is not None else None
            yield self._with_rules(each, found) if found else each


def rules_in(text: str) -> tuple[str, ...]:
    """Return the rules that an answer has, a line each; what is left out is said in one too."""
    lines = (line.strip() for line in text.splitlines())
    found = [_cut(line) for line in lines if line and not line.startswith(_NO_RULES)]
    left_out = len(found) - MOST_RULES
    more = [f"{left_out:,} more rule{'s' * (left_out > 1)}"] if left_out > 0 else []
    return (*found[:MOST_RULES], *more)


def _cut(line: str) -> str:
    left_out = len(line) - LONGEST_RULE
    return f"{line[:LONGEST_RULE]}… ({left_out:,} characters more)" if left_out > 0 else line


_DURATION = re.compile(r"\bduration=(\d+)s, n_packets=")


def with_newer(rules: Sequence[str], made_ns: int) -> tuple[str, ...]:
    """Return rules, and how many of them a flow that was made then (CLOCK_MONOTONIC) cannot have.

    Those are certainly younger: their ages are printed in whole seconds.
    """
    age_s = (time.monotonic_ns() - made_ns) / 1e9
    ages = (int(found[1]) for rule in rules if (found := _DURATION.search(rule)))
    newer = sum(age + 1 <= age_s for age in ages)
    return (*rules, *([f"{newer:,} of these rules came after the flow"] if newer else ()))


def _command(flow: Flow) -> Command:
    ufid, pmd_id = flow
    command = (METHOD, f"ufid:{ufid}")
    return command if pmd_id >= NOT_PMD else (*command, f"pmd={pmd_id}")
