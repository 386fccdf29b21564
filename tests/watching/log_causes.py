"""Whether `kernel-delay log` names the cause of each round as the round's own record has it.

The record's account is to the nanosecond, and says what the log cannot: whether a thread that did
not run waited for a CPU or was blocked.

    python -m tests.watching.log_causes LOG RECORDS...    the same of files that are kept
"""

import argparse
import datetime
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from kernel_delay.commands.log.causes import Cause
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.rounds import LongRound
from kernel_delay.commands.log.survey import survey
from kernel_delay.model import Sample
from tests.watching.truth import TIE
from tests.watching.watch import samples_in

RIGHT_SHARE = 0.95

# Of a record: what the thread ran, and why it did not.
State = Literal["computing", "kernel", "waiting", "blocked", "not_switched"]

# What a cause says of the state: "off_cpu" leaves open which of two it was.
STATES: dict[Cause, tuple[State, ...]] = {
    "computing": ("computing",),
    "kernel": ("kernel",),
    "waiting": ("waiting",),
    "blocked": ("blocked",),
    "off_cpu": ("waiting", "blocked"),
    "not_switched": ("not_switched",),
    "unknown": (),
}


class Judged(Struct):
    """How many rounds of a log were held against their records, and what came of it.

    `exact` are those whose cause leaves nothing open; `table` counts causes by what the record has.
    """

    rounds: int = 0
    right: int = 0
    exact: int = 0
    table: Counter[tuple[State, Cause]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def problems(self) -> Iterator[str]:
        if not self.rounds:
            yield "no round of the log has a record"
        if self.right < RIGHT_SHARE * self.rounds:
            yield f"{self.right} of {self.rounds} causes from the log are right: fewer than 95 %"


def judged(log: Path, samples: Sequence[Sample]) -> Judged:
    """Hold each round of the log that has a record against that."""
    records = {
        (line.time, line.thread, line.length_ms): sample
        for sample in samples
        if sample.round is not None and (line := sample.round.log) is not None
    }
    result = Judged()
    found = survey(find([str(log)]).logs, (), datetime.UTC)
    for round_ in found.rounds:
        if round_.time is None:
            continue
        sample = records.get((round_.time, round_.thread or "", round_.usage.length_ms))
        if sample is not None:
            _judge(round_, sample, result)
    return result


def _judge(round_: LongRound, sample: Sample, result: Judged) -> None:
    states = _states(sample)
    largest = max(states, key=lambda state: states[state])
    said = sum(states[state] for state in STATES[round_.cause])
    tie_ns = TIE * sample.window.duration_ns
    is_right = bool(STATES[round_.cause]) and said >= states[largest] - tie_ns
    result.rounds += 1
    result.right += is_right
    result.exact += round_.cause not in ("off_cpu", "unknown")
    result.table[largest, round_.cause] += 1
    if not is_right:
        shares = ", ".join(f"{state} {ns / 1e6:.0f}" for state, ns in states.items())
        result.wrong.append(f"{round_.cause}: {round_.usage}; the record, in ms: {shares}")


def _states(sample: Sample) -> dict[State, int]:
    time = sample.threads[0].time
    assert time is not None
    times = sample.threads[0].task_times
    steal_ns = (times.steal_ns if times else None) or 0
    return {
        "computing": time.user_ns,
        "kernel": time.kernel_ns,
        "waiting": time.ready_ns + time.throttled_ns,
        "blocked": time.blocked_ns + time.stopped_ns + time.frozen_ns,
        "not_switched": time.hard_irq_ns + time.soft_irq_ns + steal_ns,
    }


def table(result: Judged) -> Iterator[str]:
    """A line for each state and cause, and what it comes to."""
    yield "THE RECORD    FROM THE LOG  ROUNDS"
    for (state, cause), count in sorted(result.table.items()):
        yield f"{state:12}  {cause:12}  {count:6}"
    yield (
        f"{result.right} of {result.rounds} causes from the log are right; {result.exact} say more"
        " than that the thread was off the CPU"
    )
    yield from (f"not right: {text}" for text in result.wrong)


def main() -> int:
    """Compare files that are kept; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("records", type=Path, nargs="+")
    options = parser.parse_args()
    result = judged(options.log, [each for path in options.records for each in samples_in(path)])
    for line in table(result):
        print(line)
    problems = list(result.problems())
    for problem in problems:
        print(f"WRONG: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
