"""What Open vSwitch logged, what was done to it and what the records say, held together."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct, field

from kernel_delay.model import LogLine, Sample
from kernel_delay.openvswitch.log_lines import SHORTEST_LOGGED_MS
from tests.watching.causes import Cause, is_own_work, rule
from tests.watching.truth import Truth

NAMED_SHARE = 0.95

# OVS has ms, and looks at its clock a few instructions behind the poll and before the next: a
# thread that is kept from its CPU just there makes the record longer, by no more than it waited.
TOLERANCE_MS = 2.0

# A poll(2) that OVS makes elsewhere, as to see whether a connection is there, ends a round too:
# then the record is shorter. By so much a line is still taken for the round's.
SPLIT_MS = 50.0

# Shorter ones may have a line or not.
SURELY_LOGGED_MS = SHORTEST_LOGGED_MS + TOLERANCE_MS

# Who is stopped as its poll returns has not looked at its clock yet: OVS does not know of that.
LOOKS_NS = 50_000

# The log's clock has whole ms.
CLOCK = datetime.timedelta(milliseconds=1)


class Provoked(Struct, frozen=True):
    """A cause, from when to when it was provoked, and what a round of that time was long of."""

    cause: Cause
    began: datetime.datetime
    ended: datetime.datetime
    truth: Callable[[int], Truth]

    def lines(self, logged: list[LogLine]) -> list[LogLine]:
        """Those of the main thread of this time; a line is written at its round's end."""
        began, ended = self.began - CLOCK, self.ended + CLOCK
        return [line for line in logged if not line.thread and began <= line.time <= ended]


class OfCause(Struct):
    """How often it was provoked, and what came of that."""

    provoked: int = 0
    long: int = 0
    named: int = 0
    otherwise: int = 0
    otherwise_named: int = 0
    unnamed: list[str] = field(default_factory=list)


class Result(Struct):
    """What was found, by the name of the cause; what is wrong."""

    logged: int
    records: int
    causes: dict[str, OfCause] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    excess_ms: list[float] = field(default_factory=list)
    kept: int = 0
    split: int = 0
    unseen: int = 0

    def total(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.causes.values())


def compared(provoked: list[Provoked], logged: list[LogLine], samples: list[Sample]) -> Result:
    """Hold each line against its record, and each cause against what that names."""
    result = Result(len(logged), len(samples))
    records = {line: _record_of(line, samples, result) for line in logged}
    for each in provoked:
        of_cause = result.causes.setdefault(each.cause.name, OfCause())
        of_cause.provoked += 1
        if lines := each.lines(logged):
            found = [sample for line in lines if (sample := records[line]) is not None]
            _judge(each, sum(line.length_ms for line in lines), found, of_cause)
    _check(result, samples)
    return result


def _judge(provoked: Provoked, length_ms: int, found: list[Sample], of_cause: OfCause) -> None:
    """Count it as of its cause, or else as of what schedstat says that it was."""
    cause = provoked.cause
    truth = provoked.truth(length_ms * 1_000_000)
    is_named = any(cause.is_named(sample) for sample in found)
    says_so = any(_says(truth, sample) for sample in found)
    if truth.may_be(cause.share):
        of_cause.long += 1
        is_true = is_named or (truth.largest() != cause.share and says_so)
        of_cause.named += is_true
    else:
        of_cause.otherwise += 1
        is_true = says_so
        of_cause.otherwise_named += is_true
    if not is_true:
        of_cause.unnamed.append(f"{cause.name}: {truth}: {[_said(sample) for sample in found]}")


def _said(sample: Sample) -> str:
    shares = [f"{each.rule} {100 * each.share:.0f} %" for each in sample.verdict]
    return f"{_ms(sample):.0f} ms: {', '.join(shares)}"


def _says(truth: Truth, sample: Sample) -> bool:
    """Whether it names what took the largest share, where that is not what was provoked."""
    if truth.largest() == "own":
        return is_own_work(sample)
    return truth.largest() == "others" and rule(sample) == "cpu_contention"


def _record_of(line: LogLine, samples: list[Sample], result: Result) -> Sample | None:
    """The record of a line, of which there must be one."""
    found = [sample for sample in samples if sample.round and sample.round.log == line]
    if len(found) != 1:
        result.problems.append(f"{len(found)} records of the line of {line.length_ms} ms")
        return None
    (sample,) = found
    excess_ms = _ms(sample) - line.length_ms
    result.excess_ms.append(excess_ms)
    if -SPLIT_MS <= excess_ms < -TOLERANCE_MS:
        result.split += 1
    elif TOLERANCE_MS < excess_ms <= TOLERANCE_MS + _kept_ms(sample):
        result.kept += 1
    elif abs(excess_ms) > TOLERANCE_MS:
        what = f"a record is {excess_ms:+.1f} ms longer than its line of {line.length_ms} ms"
        kept = f"kept from its CPU for {_kept_ms(sample):.1f} ms"
        result.problems.append(f"{what}: {_said(sample)}; {kept}")
    return sample


def _check(result: Result, samples: list[Sample]) -> None:
    for sample in samples:
        assert sample.round is not None
        if sample.window.ended_by != "poll" or sample.round.log is not None:
            continue
        if _ms(sample) - _stopped_first_ms(sample) <= SURELY_LOGGED_MS:
            result.unseen += _ms(sample) > SURELY_LOGGED_MS
            continue
        what = f"a round of {sample.threads[0].name} of {_ms(sample):.1f} ms: {rule(sample)}"
        result.problems.append(f"no line of {what}")
    for what, named, of in (
        ("causes", result.total("named"), result.total("long")),
        ("other causes", result.total("otherwise_named"), result.total("otherwise")),
    ):
        if named < NAMED_SHARE * of:
            result.problems.append(f"{named} of {of} {what} were named: fewer than 95 %")
    for name, of_cause in result.causes.items():
        if not of_cause.long:
            result.problems.append(f"no round was long of it: {name}")


def _kept_ms(sample: Sample) -> float:
    """For how long its thread had no CPU in the round, or the hypervisor had that."""
    time = sample.threads[0].time
    times = sample.threads[0].task_times
    steal_ns = (times.steal_ns if times else None) or 0
    return ((time.ready_ns if time else 0) + steal_ns) / 1e6


def _stopped_first_ms(sample: Sample) -> float:
    """For how long its thread was stopped before it can have looked at its clock."""
    latest_ns = sample.window.start_ns + LOOKS_NS
    for each in sample.timeline or ():
        if each.tid == sample.threads[0].tid and each.kind == "stopped":
            return (each.stop_ns - each.start_ns) / 1e6 if each.start_ns <= latest_ns else 0.0
    return 0.0


def _ms(sample: Sample) -> float:
    return sample.window.duration_ns / 1e6


def table(result: Result) -> Iterator[str]:
    """A line a cause, and what it comes to."""
    yield "CAUSE            PROVOKED  LONG OF IT  NAMED  LONG OF ELSE  NAMED"
    for name, each in [*result.causes.items(), ("all", _sum(result))]:
        yield (
            f"{name:16} {each.provoked:8}  {each.long:10}  {each.named:5}  {each.otherwise:12}"
            f"  {each.otherwise_named:5}"
        )
    for each in result.causes.values():
        yield from (f"not named: {text}" for text in each.unnamed)
    counts = Counter(abs(excess_ms) <= TOLERANCE_MS for excess_ms in result.excess_ms)
    worst = max(result.excess_ms, key=abs, default=0.0)
    yield (
        f"{result.logged} lines, {result.records} records: {counts[True]} are as long within"
        f" {TOLERANCE_MS:.0f} ms, {result.kept} longer by what the thread was kept from its CPU at"
        f" an edge, {result.split} shorter as a poll elsewhere ended them; {worst:+.1f} ms at most;"
        f" {result.unseen} without a line, of threads that were stopped as their poll returned"
    )


def _sum(result: Result) -> OfCause:
    return OfCause(
        result.total("provoked"),
        result.total("long"),
        result.total("named"),
        result.total("otherwise"),
        result.total("otherwise_named"),
    )
