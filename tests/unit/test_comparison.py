"""What changed between two sets of samples: named where it did, and not where it did not."""

import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from kernel_delay.analysis.comparison import Change, ChangeKind, Comparison, compare
from kernel_delay.analysis.conditions import parse_condition
from kernel_delay.analysis.figures import MOST_BLOCKS, Block, Figures, Key, class_of
from kernel_delay.analysis.percentiles import percentile
from kernel_delay.analysis.spread import critical, percentile_of, rate, ratio, within
from kernel_delay.analysis.states import STATES
from kernel_delay.cli import main
from kernel_delay.errors import UsageError
from kernel_delay.model import Intervals, Sample, SyscallStats
from kernel_delay.reporters.comparison import remarks
from kernel_delay.reporters.comparison_sides import Side
from tests.recordings import HEADER, record_samples
from tests.unit.event_samples import WITH_EVENTS
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, bare_thread, timed_thread, window

RUNS = 20
SAMPLES = 10
SIDE = Side("a.kdr", HEADER, SAMPLES, SAMPLES * TIMED_WINDOW_NS)


@pytest.mark.parametrize(
    ("freedom", "chance", "expected"),
    # Tables of the t distribution, two-sided, as in any textbook.
    [
        (1, 0.05, 12.706),
        (1, 0.001, 636.619),
        (2, 0.05, 4.303),
        (3, 0.01, 5.841),
        (5, 0.001, 6.869),
        (10, 0.05, 2.228),
        (10, 0.001, 4.587),
        (30, 0.01, 2.750),
        (120, 0.05, 1.980),
    ],
)
def test_student_t_is_that_of_the_tables(freedom: int, chance: float, expected: float) -> None:
    assert critical(chance, freedom) == pytest.approx(expected, rel=2e-4)
    assert critical(chance, freedom + 0.9) == critical(chance, freedom)
    assert 1 - within(expected, freedom) == pytest.approx(chance, rel=1e-2)


def test_with_many_samples_it_is_the_normal_distribution() -> None:
    normal = statistics.NormalDist().inv_cdf(1 - 0.0005)
    assert critical(0.001, 1e9) == pytest.approx(normal, rel=3e-3)


def test_the_spread_of_a_ratio_is_how_it_strays() -> None:
    """Drawn a thousand times, the ratio's variance is what each of the draws estimates."""
    draw = random.Random(1)
    estimates = []
    for _ in range(1000):
        counts = [draw.randint(50, 150) for _ in range(SAMPLES)]
        totals = [count * draw.gauss(1000, 50) for count in counts]
        estimate = ratio(totals, counts)
        assert estimate is not None
        estimates.append(estimate)
    strayed = statistics.variance(estimate.value for estimate in estimates)
    assert statistics.fmean(e.variance for e in estimates) == pytest.approx(strayed, rel=0.15)


def drawn(draw: random.Random, count: int) -> tuple[list[int], int]:
    """A histogram of lengths of one distribution, and the longest of them."""
    lengths = [int(draw.lognormvariate(10, 1)) for _ in range(count)]
    histogram = [0] * 32
    for length in lengths:
        histogram[length.bit_length() - 1] += 1
    return histogram, max(lengths)


def test_the_bounds_of_a_percentile_hold_it() -> None:
    """Of 200 draws of one distribution 19 of 20 and more; as far as powers of two tell."""
    draw = random.Random(2)
    whole, most = drawn(draw, 300_000)
    limit = percentile(tuple(whole), 0.99, most)
    held = 0
    for _ in range(200):
        histograms, longest = zip(*(drawn(draw, 300) for _ in range(SAMPLES)), strict=True)
        estimate = percentile_of(histograms, longest, 0.99)
        assert estimate is not None
        low, high = estimate.bounds(0.05)
        held += low <= limit <= high
        assert high < 4 * limit
    assert held >= 190


def test_a_rate_strays_at_least_as_a_count_does() -> None:
    estimate = rate([100] * 5, [1.0] * 5)
    assert estimate is not None
    assert (estimate.value, estimate.variance) == (100, 500 / 25)
    nothing = rate([0] * 4, [0.5] * 4)
    assert nothing is not None
    assert (nothing.value, nothing.variance) == (0, 1 / 4)


def load(
    draw: random.Random,
    *,
    write_ns: float = 10_000,
    ready_ms: float = 20,
    noise: float = 0.1,
    count: int = SAMPLES,
) -> Figures:
    """Samples of three threads that write and wait for CPUs, as loaded machines have them."""
    figures = Figures()
    for _ in range(count):
        figures.add(sample(draw, write_ns, ready_ms, noise))
    return figures


def sample(draw: random.Random, write_ns: float, ready_ms: float, noise: float) -> Sample:
    disturbed = draw.gauss(1, noise)
    threads = []
    for tid, name in ((1, "ovs-vswitchd"), (2, "handler2"), (3, "handler3")):
        ready = max(0, int(ready_ms * draw.gauss(1, 3 * noise)))
        user = int(150 * draw.gauss(1, noise))
        calls = []
        for number, call, each_ns in (
            (1, "write", write_ns),
            (0, "read", 2_000),
            (202, "futex", 8_000),
        ):
            n = max(30, int(draw.gauss(2000, 200)))
            mean = each_ns * disturbed * draw.gauss(1, noise / 3)
            histogram = [0] * 32
            for _ in range(n // 20):
                histogram[
                    max(0, int(draw.lognormvariate(math.log(mean), 0.5)).bit_length() - 1)
                ] += 20
            calls.append(
                SyscallStats(number, call, n, int(n * mean), int(mean * 9), tuple(histogram))
            )
        thread = timed_thread(tid, name, user=user, kernel=40, ready=ready)
        threads.append(
            structs.replace(
                thread,
                syscalls=tuple(calls),
                ready=Intervals(500, ready * 1_000_000, 1, 90_000, (0,) * 14 + (500,)),
            )
        )
    return bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))


def claimed(comparison: Comparison) -> set[tuple[str, str, str]]:
    return {
        (change.threads, change.name, change.kind)
        for change in comparison.changes
        if change.kind in ("more", "less")
    }


def test_the_same_load_is_no_change() -> None:
    draw = random.Random(3)
    changed = [run for run in range(RUNS) if claimed(compare(load(draw), load(draw)))]
    assert len(changed) <= 1


def test_only_the_call_that_got_slower_is_named() -> None:
    draw = random.Random(4)
    named = others = 0
    for _ in range(RUNS):
        found = claimed(compare(load(draw, noise=0.02), load(draw, noise=0.02, write_ns=12_000)))
        slower = {(threads, "write.mean", "more") for threads in ("ovs-vswitchd", "handler*")}
        named += slower <= found
        others += bool({claim for claim in found if claim[1] != "write.mean"})
    assert named >= RUNS - 1
    assert others <= 1


def test_what_is_of_next_to_no_time_is_minor() -> None:
    draw = random.Random(10)
    comparison = compare(load(draw, noise=0.01, write_ns=100), load(draw, noise=0.01, write_ns=200))
    kinds = {change.kind for change in comparison.changes if change.name == "write.mean"}
    assert kinds == {"minor"}


def test_a_percentile_of_a_burst_is_no_change() -> None:
    """One sample of ten was disturbed: that is no change of the load."""
    calm, burst = (0,) * 10 + (1000,), (0,) * 10 + (700,) + (0,) * 9 + (300,)
    before, after = Figures(), Figures()
    for figures, histograms in ((before, [calm] * 9 + [burst]), (after, [calm] * 10)):
        for histogram in histograms:
            longest = 1 << len(histogram)
            waits = Intervals(1000, 2_000_000, 1, longest, histogram)
            thread = structs.replace(timed_thread(1, "main"), ready=waits)
            figures.add(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))
    (p99,) = (c for c in compare(before, after).changes if c.name == "ready.p99")
    assert p99.before > 100 * p99.after
    assert p99.kind == "unclear"


def test_what_matters_most_comes_first_and_waiting_last() -> None:
    draw = random.Random(5)
    changes = compare(load(draw, noise=0.01), load(draw, noise=0.01, ready_ms=200)).changes
    assert [change.name for change in changes[:4]] == ["ready", "ready.mean"] * 2
    assert (changes[0].kind, changes[0].unit) == ("more", "share")
    assert changes[0].change == pytest.approx(0.36, abs=0.02)
    assert changes[0].matters == pytest.approx(0.36, abs=0.02)
    idle = [change.name == "blocked" for change in changes]
    assert idle == sorted(idle)


def test_no_change_exceeds_the_whole_time() -> None:
    """Calls of 400 ms, of which one fits a window, became a thousand short ones."""

    def calls(count: int, ms_each: float) -> Figures:
        figures = Figures()
        for _ in range(SAMPLES):
            ns = int(ms_each * 1e6)
            stats = SyscallStats(0, "read", count, count * ns, ns, (0,) * 28 + (count,))
            thread = structs.replace(timed_thread(1, "worker"), syscalls=(stats,))
            figures.add(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))
        return figures

    for one, other in ((calls(1, 400), calls(1000, 0.1)), (calls(1000, 0.1), calls(1, 400))):
        shares = [change.matters for change in compare(one, other).changes]
        assert max(shares) == pytest.approx(0.8)


def test_bounds_of_a_share_are_those_of_shares() -> None:
    def throttled(*lengths_ms: int) -> Figures:
        figures = Figures()
        for ms in lengths_ms:
            figures.add(bare_sample(timed_thread(1, "a", throttled=ms)))
        return figures

    changes = compare(throttled(0, 0, 0, 0), throttled(400, 500, 500, 500)).changes
    share = next(each for each in changes if each.name == "throttled")
    assert share.high == 1.0
    assert share.low > 0


def test_one_sample_alone_claims_nothing() -> None:
    draw = random.Random(6)
    for counts in ((1, 10), (10, 1), (1, 1)):
        comparison = compare(
            *(load(draw, count=count, write_ns=10_000 * count) for count in counts)
        )
        assert comparison.changes == ()


def test_calls_that_appear_or_vanish_have_changed_rates() -> None:
    draw = random.Random(7)

    def without(samples: int, name: str) -> Figures:
        figures = Figures()
        for _ in range(samples):
            known = sample(draw, 10_000, 20, 0.01)
            threads = tuple(
                structs.replace(
                    thread, syscalls=tuple(call for call in thread.syscalls if call.name != name)
                )
                for thread in known.threads
            )
            figures.add(structs.replace(known, threads=threads))
        return figures

    comparison = compare(without(10, "read"), without(10, "futex"))
    assert {claim[1:] for claim in claimed(comparison)} == {
        ("futex.rate", "less"),
        ("read.rate", "more"),
    }
    (gone,) = [c for c in comparison.changes if (c.threads, c.name) == ("handler*", "futex.rate")]
    assert (gone.after, gone.change) == (0, -1)
    (new,) = [c for c in comparison.changes if (c.threads, c.name) == ("handler*", "read.rate")]
    assert (new.before, new.change) == (0, None)
    few = compare(load(draw), load(draw)).changes
    assert not [change for change in few if change.before == change.after == 0]


def test_numbers_in_names_are_one_class() -> None:
    assert class_of("handler12") == class_of("handler7") == "handler*"
    assert class_of("pmd-c01/id:6") == "pmd-c*/id:*"
    assert class_of("main") == "main"


def test_thousands_of_samples_are_taken_together() -> None:
    draw = random.Random(8)
    one = sample(draw, 10_000, 20, 0.01)
    figures = Figures()
    for _ in range(3 * MOST_BLOCKS + 1):
        figures.add(one)
    found = figures.figures()
    assert figures.samples == 3 * MOST_BLOCKS + 1
    key = Key("handler*", "write.mean")
    single = Figures()
    single.add(one)
    assert found[key].estimate.value == pytest.approx(single.figures()[key].estimate.value)
    assert found[key].estimate.samples <= MOST_BLOCKS


def test_blocks_that_are_merged_have_what_both_had() -> None:
    draw = random.Random(8)
    samples = [sample(draw, 10_000, 20, 0.01) for _ in range(2)]
    merged, both = Block(), Block()
    for block in (merged, both):
        block.roots_ns[Key("handler*", "root/main.throttled")] += 7
    for each in samples:
        both.add(each)
        other = Block()
        other.add(each)
        merged.merge(other)
    other = Block()
    other.roots_ns[Key("handler*", "root/main.throttled")] += 5
    merged.merge(other)
    both.roots_ns[Key("handler*", "root/main.throttled")] += 5
    assert (merged.window_ns, merged.present_ns) == (both.window_ns, both.present_ns)
    assert (merged.states_ns, merged.roots_ns) == (both.states_ns, both.roots_ns)
    assert merged.lengths.keys() == both.lengths.keys()


def change_of(
    name: str, change: float | None, low: float, high: float | None, kind: ChangeKind = "more"
) -> Change:
    return Change("handler*", name, "share", kind, 0.0, 0.0, change, low, high, 0.0)


@pytest.mark.parametrize(
    ("text", "change", "expected"),
    [
        ("ready>+5%", change_of("ready", 0.06, 0.01, 0.11), True),
        ("ready > +5 %", change_of("ready", 0.06, 0.01, 0.11), True),
        ("ready>+5%", change_of("ready", 0.06, -0.01, 0.13), False),
        ("ready>+5%", change_of("ready", 0.04, 0.03, 0.05), False),
        ("ready>+5%", change_of("user", 0.06, 0.01, 0.11), False),
        ("handler*:ready>+5.5%", change_of("ready", 0.06, 0.01, 0.11), True),
        ("main:ready>+5%", change_of("ready", 0.06, 0.01, 0.11), False),
        ("write.rate<-10%", change_of("write.rate", -0.2, -0.3, -0.1), True),
        ("write.rate<-10%", change_of("write.rate", -0.2, -0.5, 0.1), False),
        ("write.rate<-10%", change_of("write.rate", -0.05, -0.06, -0.04), False),
        ("write.rate>+10%", change_of("write.rate", None, -1.0, None), True),
        ("write.rate>+10%", change_of("write.rate", None, -1.0, None, "unclear"), False),
        # On the very limit, or with no change at the interval's end.
        ("ready>+50%", change_of("ready", 0.5, 0.1, 0.9), False),
        ("ready>+50%", change_of("ready", 0.501, 0.1, 0.9), True),
        ("ready>+50%", change_of("ready", 0.6, 0.0, 0.9), False),
        ("ready>+0%", change_of("ready", 0.1, 0.01, 0.2), True),
        ("ready<-50%", change_of("ready", -0.5, -0.9, -0.1), False),
        ("ready<-50%", change_of("ready", -0.501, -0.9, -0.1), True),
        ("ready<-50%", change_of("ready", -0.6, -0.9, 0.0), False),
        ("ready<-50%", change_of("ready", -0.6, -0.9, None), False),
    ],
)
def test_conditions(text: str, change: Change, expected: bool) -> None:
    assert parse_condition(text).is_met(change) == expected


@pytest.mark.parametrize(
    "text", ["", "ready", "ready>5%", "ready>+5", "ready>-5%", ">+5%", "a<+5%"]
)
def test_what_is_no_condition_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="a condition is"):
        parse_condition(text)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Recordings before and after writes got slower by a half."""
    draw = random.Random(9)

    def recorded(name: str, write_ns: float) -> Path:
        samples = (sample(draw, write_ns, 20, 0.01) for _ in range(SAMPLES))
        return record_samples(tmp_path / name, *samples)

    return recorded("before.kdr", 10_000), recorded("after.kdr", 15_000)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["compare", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def test_the_text_names_what_changed(pair: tuple[Path, Path], run: Run) -> None:
    status, out, err = run(*pair)
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line.startswith(("handler", "ovs-vs"))]
    assert len(rows) == 2
    assert all("write.mean" in row for row in rows)
    assert "handler* (2)" in out
    assert "2 of " in out


def test_all_figures_fit_a_terminal(pair: tuple[Path, Path], run: Run) -> None:
    _, out, _ = run(*pair, "--all")
    table = out.partition("THREADS")[2]
    assert "blocked" in table
    assert max(map(len, table.splitlines())) <= 80


def test_json_has_it_all(pair: tuple[Path, Path], run: Run) -> None:
    status, out, _ = run(*pair, "--json")
    document = msgspec.json.decode(out)
    assert status == 0
    assert document["schema"] == "kernel-delay-comparison/1"
    assert document["before"]["header"]["host"] == "compute-1"
    (change,) = [
        change
        for change in document["comparison"]["changes"]
        if (change["threads"], change["name"]) == ("handler*", "write.mean")
    ]
    assert change["kind"] == "more"
    assert change["low"] < 0.5 < change["high"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [("write.mean>+20%", 1), ("handler*:write.mean>+20%", 1), ("write.mean>+80%", 0)],
)
def test_a_condition_that_is_met_is_exit_code_1(
    pair: tuple[Path, Path], run: Run, condition: str, expected: int
) -> None:
    status, _, err = run(*pair, "--fail-if", condition, "--fail-if", "ready>+50%")
    assert status == expected
    assert (f"{condition}: write.mean of handler* is" in err) == bool(expected)


def test_a_page_is_written_beside_the_text(
    pair: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    page = tmp_path / "page.html"
    status, out, err = run(*pair, "--html", page)
    assert (status, err) == (0, "")
    assert out == run(*pair)[1]
    assert page.stat().st_mode & 0o777 == 0o600
    assert "write.mean" in page.read_text()
    page.unlink()
    page.symlink_to(tmp_path / "other")
    status, _, err = run(*pair, "--html", page)
    assert (status, err.count("\n")) == (73, 1)
    assert not (tmp_path / "other").exists()


def test_what_can_not_be_judged_is_an_error(
    pair: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    status, _, err = run(*pair, "--fail-if", "wriet.mean>+5%")
    assert (status, err.count("\n")) == (64, 1)
    one = record_samples(tmp_path / "one.kdr", WITH_EVENTS)
    status, out, err = run(one, one, "--fail-if", "ready>+5%")
    assert (status, err) == (
        65,
        "kernel-delay: --fail-if needs at least two samples of each side to distinguish change"
        " from chance\n",
    )
    assert "one sample can't distinguish change from chance" in out
    before, _ = pair
    assert run(f"{before}@1-2", f"{before}@3-4", "--fail-if", "write.mean>+500%")[0] == 0


def test_samples_of_one_recording_are_compared(pair: tuple[Path, Path], run: Run) -> None:
    before, _ = pair
    status, out, _ = run(f"{before}@1-5", f"{before}@6-10")
    assert status == 0
    assert out.count(": 5 samples, 2.5 s") == 2
    assert "0 of " in out
    assert run(f"{before}@5-1", before)[0] == 64
    assert run(f"{before}@0-1", before)[0] == 64


def test_cut_recording_is_compared_up_to_the_cut(pair: tuple[Path, Path], run: Run) -> None:
    before, after = pair
    after.write_bytes(after.read_bytes()[:-3])
    status, out, err = run(before, after)
    assert status == 65
    assert "write.mean" in out
    assert "was cut" in err


def test_threads_that_are_on_one_side_alone_are_reported(tmp_path: Path, run: Run) -> None:
    def recorded(name: str, thread: str) -> Path:
        samples = [
            bare_sample(
                timed_thread(1, thread),
                bare_thread(2, "main"),
                window=window(duration_ns=TIMED_WINDOW_NS),
            )
        ]
        return record_samples(tmp_path / name, *samples * 2)

    _, out, _ = run(recorded("a.kdr", "old1"), recorded("b.kdr", "new1"))
    assert "# Only before: old*." in out
    assert "# Only after: new*." in out


def without_accounts(sample: Sample) -> Sample:
    threads = tuple(structs.replace(thread, time=None) for thread in sample.threads)
    return structs.replace(sample, threads=threads)


def test_times_that_one_side_did_not_measure_are_not_compared() -> None:
    samples = [sample(random.Random(n), 10_000, 20, 0.1) for n in range(SAMPLES)]
    known, unknown = Figures(), Figures()
    for each in samples:
        known.add(each)
        unknown.add(without_accounts(each))
    comparison = compare(unknown, known)
    names = {change.name for change in comparison.changes}
    assert names >= {"write.mean", "ready.rate"}
    assert not names & set(STATES)
    assert comparison.unmeasured == {"accounts": "before", "page_faults": "before"}
    said = "Where the time went was not measured before: it is not compared."
    assert [line for line in remarks(SIDE, SIDE, comparison) if "before" in line] == [said]
    assert compare(known, known).unmeasured == compare(unknown, unknown).unmeasured == {}


def test_page_faults_that_one_side_did_not_see_are_named() -> None:
    seen, unseen = Figures(), Figures()
    for n in range(SAMPLES):
        each = sample(random.Random(n), 10_000, 20, 0.1)
        seen.add(each)
        unseen.add(structs.replace(each, unseen=("page_faults",)))
    said = "Page faults were not seen after: their time is in user there."
    assert said in remarks(SIDE, SIDE, compare(seen, unseen))


def test_a_thread_for_each_request_is_no_minor_matter() -> None:
    """In each window 100 threads were there for a hundredth of it each, in a call throughout."""

    def requests(each_ns: int, first_tid: int) -> Figures:
        figures = Figures()
        for number in range(SAMPLES):
            threads = []
            for tid in range(100):
                thread = timed_thread(first_tid + 100 * number + tid, "request", absent=495)
                call = SyscallStats(230, "write", 1, each_ns, each_ns, (0,) * 21 + (1,))
                threads.append(structs.replace(thread, syscalls=(call,)))
            figures.add(bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS)))
        return figures

    comparison = compare(requests(2_500_000, 1), requests(5_000_000, 10_000))
    change = next(each for each in comparison.changes if each.name == "write.mean")
    assert change.kind == "more"
    assert change.matters == pytest.approx(0.5)
