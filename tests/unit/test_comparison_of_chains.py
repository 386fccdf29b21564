"""Wait chains of two recordings compared: by their roots, and only where both sides have them."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.comparison import Change, compare
from kernel_delay.analysis.figures import Figures
from kernel_delay.model import ChainPart, ChainState, ChainThread, Sample, WaitChain
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

MS = 1_000_000


def sample(*parts: ChainPart, chains: bool = True) -> Sample:
    thread = timed_thread(27090, "client", user=100, blocked=400)
    chain = WaitChain(sum(part.ns for part in parts), parts) if chains else None
    return bare_sample(replace(thread, chain=chain), window=window(duration_ns=TIMED_WINDOW_NS))


def side(state: ChainState, ms: int, *, chains: bool = True) -> Figures:
    figures = Figures()
    for number in range(10):
        root = ChainThread(100 + number, 100 + number, f"postgres-{number}")
        part = ChainPart((root,), state, ms * MS + number)
        rest = ChainPart((), "unknown", (400 - ms) * MS - number)
        figures.add(sample(part, rest, chains=chains))
    return figures


def changes(before: Figures, after: Figures) -> dict[str, Change]:
    found = compare(before, after).changes
    return {each.name: each for each in found if each.name.startswith("root/")}


def test_root_that_was_held_longer_is_a_change() -> None:
    found = changes(side("throttled", 100), side("throttled", 300))["root/postgres-*.throttled"]
    assert found.kind == "more"
    assert (found.before, found.after) == pytest.approx((0.2, 0.6), abs=1e-3)


def test_root_in_a_new_state_grew_from_nothing() -> None:
    found = changes(side("running", 200), side("stopped", 200))
    assert found["root/postgres-*.stopped"].kind == "more"
    assert found["root/postgres-*.running"].kind == "less"


def test_chains_of_one_side_are_not_compared() -> None:
    assert not changes(side("running", 0, chains=False), side("running", 200))
