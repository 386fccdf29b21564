"""Timelines: what their slices add up to, and what is said of one."""

from msgspec import structs

from kernel_delay.analysis.timeline import by_thread
from kernel_delay.model import Lost, Round, Slice, SliceKind
from kernel_delay.reporters import text
from tests.timeline_accounts import account_of
from tests.unit.samples import EVERYTHING
from tests.unit.timeline_samples import HANDLER, TIMES, WINDOW, WITH_TIMELINE


def test_slices_add_up_to_the_account() -> None:
    assert WITH_TIMELINE.timeline is not None
    found = {tid: account_of(slices, WINDOW) for tid, slices in by_thread(WITH_TIMELINE.timeline)}
    assert found == TIMES


def test_it_makes_no_difference_where_slices_are_cut() -> None:
    assert WITH_TIMELINE.timeline is not None
    for tid, slices in by_thread(WITH_TIMELINE.timeline):
        halves = [half for each in slices for half in halves_of(each)]
        assert account_of(halves, WINDOW) == TIMES[tid]


def halves_of(whole: Slice) -> list[Slice]:
    """The same time in two slices; an interrupt is one, as others may be served within it."""
    middle_ns = (whole.start_ns + whole.stop_ns) // 2
    if whole.kind in ("soft_irq", "hard_irq"):
        return [whole]
    return [structs.replace(whole, stop_ns=middle_ns), structs.replace(whole, start_ns=middle_ns)]


def test_only_a_hard_irq_within_a_soft_one_is_none_of_that() -> None:
    at = WINDOW.start_ns

    def of(*interrupts: Slice) -> tuple[int, int]:
        running = Slice(9, "running", at, at + 1_000_000, "user", None, 0)
        found = account_of((running, *interrupts), WINDOW)
        return found.soft_irq_ns, found.hard_irq_ns

    soft = Slice(9, "soft_irq", at + 100, at + 200, "user", "net_rx")
    assert of(soft, Slice(9, "hard_irq", at + 150, at + 160, "user", "eth0")) == (90, 10)
    assert of(soft, Slice(9, "hard_irq", at + 200, at + 210, "user", "eth0")) == (100, 10)
    assert of(Slice(9, "hard_irq", at + 50, at + 60, "user", "eth0"), soft) == (100, 10)


def test_all_that_was_lost_counts() -> None:
    at = WINDOW.start_ns
    ends = range(100_000, 500_000, 100_000)
    kinds: tuple[SliceKind, ...] = ("lost_modes", "lost_states") * 2
    lost = [
        Slice(9, kind, at + end - 70_000, at + end, "unknown")
        for kind, end in zip(kinds, ends, strict=True)
    ]
    for mode in ("user", "worker"):
        running = Slice(9, "running", at, at + 1_000_000, mode, None, 0)
        found = account_of([*lost, running], WINDOW)
        assert found.unaccounted_ns == 280_000
        assert (found.user_ns, found.kernel_ns) == (
            (720_000, 0) if mode == "user" else (0, 720_000)
        )


def test_what_was_lost_of_them_is_unaccounted() -> None:
    blocked = next(each for each in HANDLER if each.kind == "blocked")
    lost = structs.replace(blocked, kind="lost_states", mode="unknown", name=None)
    found = account_of([lost if each is blocked else each for each in HANDLER], WINDOW)
    assert found.blocked_ns == 0
    assert found.unaccounted_ns == 500_000
    assert sum(structs.astuple(found)) == WINDOW.duration_ns


def test_a_kernel_worker_has_no_program() -> None:
    at = WINDOW.start_ns
    worker = (
        Slice(9, "running", at, at + 400_000, "worker", None, 0),
        Slice(9, "blocked", at + 400_000, at + 1_000_000, "worker"),
    )
    found = account_of(worker, WINDOW)
    assert (found.kernel_ns, found.blocked_ns, found.user_ns) == (400_000, 600_000, 0)


def test_text_reports_the_size_and_gaps_of_a_timeline() -> None:
    said = text.render(WITH_TIMELINE)
    assert "# The timeline has 13 slices of time" in said
    assert "WARNING" not in said
    lost = Lost(timeline_interrupts=7, timeline_states=8000)
    said = text.render(structs.replace(WITH_TIMELINE, lost=lost))
    assert "# WARNING: the timeline had no room for 7 interrupts, 8,000 states: its" in said
    assert "timeline" not in text.render(EVERYTHING)


def test_the_text_says_what_of_a_round_there_is() -> None:
    assert WITH_TIMELINE.timeline is not None
    whole = structs.replace(WITH_TIMELINE, round=Round(HANDLER[0].tid, "handler", number=7))
    assert "# The timeline has 13 slices of time, of all of the round: " in text.render(whole)
    at = WINDOW.start_ns
    slices = (
        Slice(9, "running", at, at + 100_000, "user", None, 0),
        Slice(9, "lost_states", at + 100_000, at + 700_000, "unknown"),
        Slice(9, "lost_modes", at + 90_000, at + 750_000, "unknown"),
        Slice(9, "running", at + 700_000, at + 1_000_000, "user", None, 0),
    )
    parted = structs.replace(whole, timeline=slices, round=Round(9, "main", 7, slices_left_out=50))
    said = text.render(parted)
    assert "slices of time, of the first 90.0 µs of the round and its last 250.0 µs: 50 bet" in said
    assert "WARNING: there was no room" in text.render(structs.replace(whole, timeline=()))
