"""`make test-speedscope`: the stacks and weights that speedscope reads are those we wrote."""

from collections import Counter

import pytest

from kernel_delay.model import Sample
from kernel_delay.reporters import folded
from tests.speedscope.conftest import Import, Stacks
from tests.unit.event_samples import WITH_EVENTS, renamed
from tests.unit.page_samples import HOSTILE, sample_with_events


def written(text: str) -> Stacks:
    """The stacks of folded lines, by what the form says: the last space is before the weight."""
    stacks: Stacks = Counter()
    for line in text.splitlines():
        names, _, weight = line.rpartition(" ")
        stacks[tuple(names.split(";"))] += int(weight)
    return stacks


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(WITH_EVENTS, id="calls"),
        *(renamed(WITH_EVENTS, "ovs_mutex_lock_at", name) for name in HOSTILE),
        pytest.param(renamed(WITH_EVENTS, "revalidator14", "two words 7"), id="spaces"),
        pytest.param(sample_with_events(10_000), id="10000"),
    ],
)
def test_it_reads_what_was_written(sample: Sample, imported: Import) -> None:
    text = folded.render(sample)
    stacks = written(text)
    assert sum(stacks.values()) == sum(
        event.exit_ns - event.entry_ns for event in sample.syscall_events or ()
    )
    assert imported(text) == stacks
