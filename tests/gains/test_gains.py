"""What a record says of a round without its delay, where that can be no other on a busy machine."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernel_delay.model import Finding, Sample
from tests.gains.cases import CASES, staged
from tests.gains.run import THRESHOLD_S, lengths_in
from tests.gains.victims import SLOW_S
from tests.watching.watch import Watching, samples_in, watch_of
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

SLOW_NS = int(SLOW_S * 1e9)
OPTIONS = ("--threshold", f"{THRESHOLD_S}", "--no-stacks")
ROUNDS = 3


def found_by(rules: Sequence[str], watching: Watching) -> list[tuple[Sample, Finding]]:
    """The findings of these rules so far, and what they are of."""
    samples = [sample for path in watching.recordings() for sample in samples_in(path)]
    return [(each, found) for each in samples for found in each.verdict if found.rule in rules]


def test_rounds_without_a_delay_are_shorter_by_it() -> None:
    case = CASES["timer"]
    with (
        tempfile.TemporaryDirectory() as folder,
        staged(case) as victim,
        watch_of(victim.pid, Path(folder), *OPTIONS) as watching,
    ):
        remove = victim.apply()
        wait_until(lambda: len(found_by(case.rules, watching)) >= ROUNDS, every_s=0.1)
        remove()
        removed = len(lengths_in(victim.lengths))
        wait_until(lambda: len(lengths_in(victim.lengths)) > removed + ROUNDS, every_s=0.1)
        watching.end()
        found = found_by(case.rules, watching)
        # The first one began before.
        without = lengths_in(victim.lengths)[removed + 1 :]
    for sample, finding in found:
        assert finding.without_most_ns is not None
        assert finding.without_least_ns is not None
        assert finding.without_least_ns <= finding.without_most_ns
        rest_ns = sample.window.duration_ns - finding.evidence["lost_ns"]
        assert finding.without_most_ns == rest_ns
        assert sample.window.stop_ns <= without[0].start_ns


def test_work_of_a_helper_leaves_no_most() -> None:
    case = CASES["sleep before a helper"]
    with (
        tempfile.TemporaryDirectory() as folder,
        staged(case) as victim,
        watch_of(victim.pid, Path(folder), *OPTIONS) as watching,
    ):
        victim.apply()
        wait_until(lambda: len(found_by(case.rules, watching)) >= ROUNDS, every_s=0.1)
        watching.end()
        found = found_by(case.rules, watching)
    for _, finding in found:
        assert finding.without_least_ns is not None
        assert finding.without_most_ns is None


def test_watch_says_what_would_help() -> None:
    case = CASES["timer"]
    threshold_ns = int(1.5 * SLOW_NS)
    options = ("--threshold", f"{threshold_ns / 1e9}", "--no-stacks")
    with (
        tempfile.TemporaryDirectory() as folder,
        staged(case) as victim,
        watch_of(victim.pid, Path(folder), *options) as watching,
    ):
        victim.apply()
        # However busy the machine is, without the sleep a round is shorter now and then.
        wait_until(
            lambda: any(
                (found.without_most_ns or threshold_ns) < threshold_ns
                for _, found in found_by(case.rules, watching)
            ),
            every_s=0.1,
        )
        text = watching.end()
    assert "Without wait_clock, " in text
    assert "would have been below 150.0 ms" in text
