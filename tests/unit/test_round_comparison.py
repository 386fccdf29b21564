"""Long rounds compared: what of them is more, and no claim that chance could have made."""

import os
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from kernel_delay.analysis.comparison import Change, Comparison
from kernel_delay.analysis.figures import MOST_BLOCKS
from kernel_delay.analysis.round_comparison import compare_rounds
from kernel_delay.analysis.round_figures import RoundFigures
from kernel_delay.analysis.spread import proportion, separable
from kernel_delay.analysis.states import STATES
from kernel_delay.analysis.verdict import judge
from kernel_delay.cli import main
from kernel_delay.model import (
    CpuTaker,
    LockWait,
    PageFaults,
    Round,
    Sample,
    Sleep,
    SyscallStats,
    ThreadTime,
    TriggerHit,
    Unseen,
)
from kernel_delay.recording.directory import RecordingDirectory
from kernel_delay.reporters.comparison import remarks
from kernel_delay.reporters.comparison_sides import Side
from tests.recordings import header, record_samples
from tests.unit.samples import START_TIME, bare_sample, bare_thread, window

MS = 1_000_000
ROUNDS = 8


def round_of(name: str = "handler4", number: int = 1, **parts_ms: float) -> Sample:
    """A round that went where `parts_ms` say; it slept in write, for a pipe."""
    ns = {f"{part}_ns": int(ms * MS) for part, ms in parts_ms.items()}
    fields = {field: ns.get(field, 0) for field in ThreadTime.__struct_fields__}
    time = ThreadTime(**fields)
    blocked, whole = time.blocked_ns, sum(fields.values())
    sleeps = (Sleep("pipe", "write", ("anon_pipe_write",), False, 1, blocked, blocked),)
    write = SyscallStats(1, "write", 2, blocked, blocked, (), 0, 0, blocked, 0)
    taker = CpuTaker(77, "stress7", 3, time.ready_ns)
    thread = structs.replace(
        bare_thread(31, name),
        time=time,
        syscalls=(write,) if blocked else (),
        sleeps=sleeps if blocked else (),
        cpu_taken_by=(taker,) if time.ready_ns else (),
    )
    began = structs.replace(window("poll", whole), start_time=START_TIME + timedelta(0, number))
    return judge(structs.replace(bare_sample(thread, window=began), round=Round(31, name, number)))


def rounds(draw: random.Random, count: int = ROUNDS, **parts_ms: float) -> list[Sample]:
    return [
        round_of("handler4", n, **{part: ms * draw.gauss(1, 0.02) for part, ms in parts_ms.items()})
        for n in range(count)
    ]


def figures_of(samples: list[Sample]) -> RoundFigures:
    figures = RoundFigures()
    for sample in samples:
        figures.add(sample)
    return figures


def compared(before: list[Sample], after: list[Sample]) -> Comparison:
    return compare_rounds(figures_of(before), figures_of(after))


def changes_of(comparison: Comparison) -> dict[str, Change]:
    return {change.name: change for change in comparison.changes}


def claimed(comparison: Comparison) -> set[str]:
    return {change.name for change in comparison.changes if change.kind in ("more", "less")}


def test_what_of_the_longer_round_is_more_sums_up() -> None:
    """Of one round of each side: the states' differences are that of the lengths."""
    before, after = round_of(user=40, blocked=60), round_of(user=41, ready=30, blocked=80)
    comparison = compared([before], [after])
    changes = changes_of(comparison)
    whole = changes["round.mean"]
    assert (whole.before, whole.after) == (100 * MS, 151 * MS)
    states = [changes[f"{state}.round"] for state in STATES if f"{state}.round" in changes]
    assert sum(each.after - each.before for each in states) == 51 * MS
    assert changes["blocked/pipe.round"].after == changes["write.round"].after == 80 * MS
    assert changes["ready/stress*.round"].change is None
    assert changes["write.count"].before == changes["write.count"].after == 2
    assert (changes["cause/wait_pipe"].before, changes["user"].before) == (1.0, 0.4)
    assert comparison.changes[0].name == "round.mean"
    # Never more than all of the longer round.
    assert whole.matters == pytest.approx(51 / 151)
    assert comparison.few == ("handler*",)
    assert not claimed(comparison)


def test_locks_and_faults_have_a_part_of_the_round() -> None:
    sample = round_of(user=40, kernel=20, blocked=40)
    thread = structs.replace(
        sample.threads[0],
        lock_waits=(LockWait(0x1000, 32, "urcu2", 3, 30 * MS),),
        lock_waits_others_ns=2 * MS,
        page_faults=PageFaults(40, 15 * MS, 5 * MS),
    )
    figures = figures_of([structs.replace(sample, threads=(thread,))])
    names = ("lock/urcu*.round", "lock/others.round", "faults.round", "faults.count", "faults.mean")
    found = [figures.figure("handler*", name) for name in names]
    assert [each and each.estimate.value for each in found] == [
        *(30 * MS, 2 * MS),
        *(20 * MS, 40, MS / 2),
    ]


def test_what_became_longer_is_named_and_nothing_else() -> None:
    draw = random.Random(1)
    comparison = compared(rounds(draw, user=40, blocked=60), rounds(draw, user=40, blocked=120))
    changes = changes_of(comparison)
    assert comparison.few == ()
    assert {"round.mean", "blocked.round", "blocked/pipe.round", "write.round"} <= claimed(
        comparison
    )
    assert changes["user.round"].kind in ("same", "unclear")
    # Their shares have to differ then.
    assert changes["blocked"].kind == "more"
    assert changes["user"].kind == "less"


def test_rounds_of_several_causes_are_no_change() -> None:
    """Each round has one of two causes, by lot: in 200 comparisons hardly one has a claim."""
    draw = random.Random(2)
    claims = 0
    for run in range(200):
        sides = []
        for _ in range(2):
            count = draw.choice((2, 3, 5, 8, 12))
            kinds = (("user", "blocked"), ("blocked", "ready"), ("user", "ready"))[run % 3]
            causes = [draw.choice(kinds) for _ in range(count)]
            sides.append([round_of("main", 1, **{cause: draw.gauss(100, 2)}) for cause in causes])
        claims += bool(claimed(compared(*sides)))
    assert claims <= 10


def test_rare_long_waits_for_cpu_are_no_change() -> None:
    """One wait of many makes the mean: in 200 comparisons hardly one has a claim."""
    draw = random.Random(6)
    claims = 0
    for _ in range(200):
        sides = [
            [
                round_of("main", n, user=100, ready=draw.lognormvariate(0, 2))
                if draw.random() < 0.5
                else round_of("main", n, user=100)
                for n in range(20)
            ]
            for _ in range(2)
        ]
        claims += bool(claimed(compared(*sides)))
    assert claims <= 10


def test_change_to_or_from_zero_has_consistent_bounds() -> None:
    draw = random.Random(7)
    waiting, other = rounds(draw, user=100, ready=20), rounds(draw, user=100)
    gone = changes_of(compared(waiting, other))["ready.round"]
    assert (gone.kind, gone.change, gone.low) == ("less", -1, -1)
    assert gone.high is not None
    assert gone.high < -0.9
    new = changes_of(compared(other, waiting))["ready.round"]
    assert (new.kind, new.change, new.low, new.high) == ("more", None, 0, None)


@pytest.mark.parametrize("counts", [(1, 1), (1, 50), (2, 2), (4, 4)])
def test_of_few_rounds_nothing_is_claimed(counts: tuple[int, int]) -> None:
    draw = random.Random(3)
    before, after = rounds(draw, counts[0], user=100), rounds(draw, counts[1], blocked=900)
    comparison = compared(before, after)
    assert comparison.few == ("handler*",)
    assert comparison.changes
    assert {change.kind for change in comparison.changes} == {"unclear"}
    assert {change.low for change in comparison.changes} == {-1.0}


def test_how_many_rounds_are_enough() -> None:
    draw = random.Random(4)
    (enough,) = {
        compared(rounds(draw, n, user=100), rounds(draw, n, user=300)).enough for n in (2, 20)
    }
    assert 4 < enough < 12
    for count, few in ((enough - 1, True), (enough, False)):
        comparison = compared(rounds(draw, count, user=100), rounds(draw, count, user=300))
        assert bool(comparison.few) == few
        assert ("user.round" in claimed(comparison)) != few


def test_dealt_out_by_lot() -> None:
    # 2 of the 20 ways to have three of six.
    assert separable(3, 3, 0.1)
    assert not separable(3, 3, 0.099)
    assert not separable(1, 10**6, 0.05)
    assert separable(10**6, 10**6, 1e-300)


def test_all_of_a_few_is_not_all() -> None:
    assert proportion(3, 3).value == 1
    assert proportion(3, 3).variance == pytest.approx(0.8 * 0.2 / 3)
    assert proportion(0, 3).variance == pytest.approx(proportion(3, 3).variance)


def test_thread_with_few_rounds_gains_nothing_from_others() -> None:
    draw = random.Random(5)
    few = [round_of("main", user=100)] * 2
    more = [round_of("main", user=500)] * 2
    many = rounds(draw, 100, user=100)
    comparison = compared(many + few, many + more)
    assert comparison.few == ("main",)
    assert not claimed(comparison)
    assert comparison.threads == {"handler*": (100, 100), "main": (2, 2)}


def test_thousands_of_rounds_are_taken_together() -> None:
    figures = figures_of([round_of(user=40, blocked=60)] * (2 * MOST_BLOCKS + 1))
    for name, value in (("blocked.round", 60 * MS), ("cause/wait_pipe", 1.0), ("write.mean", 30e6)):
        found = figures.figure("handler*", name)
        assert found is not None
        assert found.estimate.value == value
    assert figures.rounds() == {"handler*": 2 * MOST_BLOCKS + 1}


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: object) -> tuple[int, str, str]:
        status = main(["compare", *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def folder_of(
    path: Path, samples: list[Sample], pid: int = 27090, arguments: tuple[str, ...] = ()
) -> Path:
    """What `watch -o` writes of these rounds."""
    target = structs.replace(header("watch").target, pid=pid)
    folder = RecordingDirectory(path, header("watch", target=target, arguments=arguments))
    for sample in samples:
        folder.add(sample)
    return path


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    draw = random.Random(6)
    return (
        folder_of(tmp_path / "before", rounds(draw, user=40, blocked=60)),
        folder_of(tmp_path / "after", rounds(draw, user=40, blocked=120)),
    )


def test_folders_are_compared(folders: tuple[Path, Path], run: Run) -> None:
    status, out, err = run(*folders)
    assert (status, err) == (0, "")
    assert out.count("        8 rounds of ") == 2
    assert "handler* (8) write.round " in out
    assert "Take more rounds" in out
    table = run(*folders, "--all")[1].partition("THREADS")[2]
    assert "cause/wait_pipe" in table
    assert max(map(len, table.splitlines())) <= 80


def test_two_rounds_are_compared(folders: tuple[Path, Path], run: Run) -> None:
    status, out, err = run(*(sorted(folder.iterdir())[0] for folder in folders))
    assert (status, err) == (0, "")
    assert out.count("        1 round of ") == 2
    # Why each was long.
    assert out.count("waited for a pipe in write") == 2
    assert "OF A ROUND" in out
    assert "write.round" in out
    assert "user.round" not in out
    assert "Nothing is claimed" in out
    _, everything, _ = run(f"{folders[0]}@1-1", f"{folders[1]}@2-3", "--all")
    assert "2 rounds of " in everything
    assert "user.round" in everything
    assert "write.count" in everything
    for text in (out, everything):
        assert max(map(len, text.partition("THREADS")[2].splitlines())) <= 80


def test_what_is_the_same_is_said_to_be(folders: tuple[Path, Path], run: Run) -> None:
    record = sorted(folders[0].iterdir())[0]
    _, out, _ = run(record, record)
    assert "THREADS" not in out
    assert "differ by less than 1 % of a round" in out


def test_json_and_a_page_have_rounds_too(
    folders: tuple[Path, Path], tmp_path: Path, run: Run
) -> None:
    page = tmp_path / "page.html"
    status, out, _ = run(*folders, "--json", "--html", page)
    document = msgspec.json.decode(out)
    assert status == 0
    assert document["before"]["rounds"]["longest_ns"] >= document["before"]["rounds"]["shortest_ns"]
    assert document["comparison"]["of"] == "rounds"
    assert document["comparison"]["threads"] == {"handler*": [8, 8]}
    assert "write.round" in page.read_text()
    assert '"what":"Rounds"' in page.read_text().replace(" ", "")
    record = next(iter(folders[0].iterdir()))
    assert run(*folders, "--html", record)[0] == 64
    assert '"too_few":false' in page.read_text().replace(" ", "")
    run(*(f"{folder}@1-1" for folder in folders), "--html", page)
    assert '"too_few":true' in page.read_text().replace(" ", "")


def test_a_condition_on_rounds(folders: tuple[Path, Path], run: Run) -> None:
    assert run(*folders, "--fail-if", "blocked.round>+50%")[0] == 1
    assert run(*folders, "--fail-if", "user.round>+50%")[0] == 0
    status, _, err = run(*(f"{folder}@1-2" for folder in folders), "--fail-if", "user>+50%")
    assert (status, err.count("\n")) == (65, 1)
    assert "too few rounds" in err


def test_what_does_not_fit_is_refused(folders: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    before, _ = folders
    windows = record_samples(tmp_path / "capture.kdr", bare_sample(bare_thread(1, "main")))
    triggered = round_of(user=100)
    hits = (TriggerHit(f"up:{name}", 31, "handler4") for name in ("begin", "end"))
    names = dict(zip(("start_trigger", "stop_trigger"), hits, strict=True))
    triggered = structs.replace(triggered, window=structs.replace(triggered.window, **names))
    empty = tmp_path / "empty"
    empty.mkdir()
    for other, status in (
        (windows, 65),
        (folder_of(tmp_path / "triggered", [triggered]), 65),
        (folder_of(tmp_path / "both", [triggered, round_of(number=2, user=100)]), 65),
        (empty, 66),
        (f"{before}@90-91", 65),
    ):
        found, out, err = run(before, other)
        assert (found, out, err.count("\n")) == (status, "", 1)


def test_a_record_that_was_cut_leaves_the_others(folders: tuple[Path, Path], run: Run) -> None:
    before, after = folders
    cut = sorted(before.iterdir())[0]
    cut.write_bytes(cut.read_bytes()[:-3])
    (before / "other.kdr").write_text("of someone else")
    status, out, err = run(before, after)
    assert (status, err.count("\n")) == (65, 1)
    assert "rounds of " in out
    sorted(after.iterdir())[0].write_bytes(b"")
    status, out, err = run(before, after)
    assert (status, err.count("\n")) == (65, 2)
    assert "        7 rounds of " in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), ""),
        (("--threshold", "1.0"), ""),
        (("--threshold=0.1", "-o", "x"), "1,000.0 ms before, 100.0 ms after."),
        (("--threshold", "3", "--threshold", "0.02"), "1,000.0 ms before, 20.0 ms after."),
        (("--threshold",), ""),
    ],
)
def test_another_threshold_is_reported(
    arguments: tuple[str, ...], said: str, tmp_path: Path, run: Run
) -> None:
    draw = random.Random(8)
    before = folder_of(tmp_path / "before", rounds(draw, user=100))
    after = folder_of(tmp_path / "after", rounds(draw, user=100), arguments=arguments)
    page = tmp_path / "page.html"
    for sides in ((before, after), (f"{before}@1-1", f"{after}@1-1")):
        text = " ".join(run(*sides, "--html", page)[1].replace("# ", "").split())
        assert ("with another --threshold" in text) == bool(said)
        assert said in text
    assert ("with another --threshold" in page.read_text()) == bool(said)


def test_rounds_of_other_threads_are_not_compared(tmp_path: Path, run: Run) -> None:
    before = folder_of(tmp_path / "before", [round_of("python3", n, user=100) for n in range(8)])
    after = folder_of(tmp_path / "after", [round_of("redis", n, user=100) for n in range(8)])
    status, out, err = run(before, after)
    assert (status, err) == (0, "")
    assert "# There is nothing to compare: no threads of one name are on both sides.\n" in out
    assert "figures changed" not in out
    assert "# Only before: python*.\n# Only after: redis.\n" in out


def test_a_name_that_is_not_utf_8(folders: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    named = folders[0].rename(tmp_path / os.fsdecode(b"before\xff"))
    status, out, err = run(named, folders[1], "--json")
    assert (status, err) == (0, "")
    assert msgspec.json.decode(out)["before"]["file"].endswith("before\\xff")
    assert "before\\xff\n" in run(named, folders[1])[1]


def test_of_how_many_processes_they_are(tmp_path: Path, run: Run) -> None:
    draw = random.Random(7)
    samples = rounds(draw, 3, user=100)
    folder_of(tmp_path / "both", samples)
    folder_of(tmp_path / "both", [round_of(number=9, user=100)], pid=4711)
    suppressed = structs.replace(samples[1], round=Round(31, "handler4", 2, suppressed=5))
    folder_of(tmp_path / "suppressed", [suppressed])
    _, out, _ = run(tmp_path / "both", tmp_path / "suppressed")
    assert "ovs-vswitchd (27090) and 1 more, the first on compute-1" in out
    assert "; 5 more have no record" in out


def test_calls_that_one_side_did_not_count_are_not_compared() -> None:
    """Without `--calls` polls alone are counted: of other calls 0 is not known."""
    counted = [round_of(user=40, blocked=60 + n) for n in range(ROUNDS)]
    poll = SyscallStats(7, "poll", 1, MS, MS, (), 0, 0, MS, 0)

    def with_poll(sample: Sample, unseen: tuple[Unseen, ...] = ()) -> Sample:
        thread, calls = sample.threads[0], sample.threads[0].syscalls
        if unseen:
            calls = tuple(structs.replace(call, count=0) for call in calls)
        faults = None if unseen else PageFaults(40, 15 * MS, 0)
        thread = structs.replace(thread, syscalls=(*calls, poll), page_faults=faults)
        return structs.replace(sample, threads=(thread,), unseen=unseen)

    before = [with_poll(sample, ("calls",)) for sample in counted]
    comparison = compared(before, list(map(with_poll, counted)))
    names = set(changes_of(comparison))
    assert names >= {"poll.count", "poll.round", "blocked/pipe.round", "user.round", "round.mean"}
    assert not [name for name in names if name.startswith(("write.", "faults."))]
    assert comparison.unmeasured == {"calls": "before", "page_faults": "before"}
    said = "System calls other than polls were not counted before: they are not compared."
    side = Side("a", header("watch"), ROUNDS, MS)
    assert [line for line in remarks(side, side, comparison) if "before" in line] == [said]
    alike = compared(before, before)
    assert "write.round" in changes_of(alike)
    assert not alike.unmeasured
