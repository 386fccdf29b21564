"""What an interval would have taken without a delay, and where nothing is known of that."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.rounds import main_cause
from kernel_delay.analysis.verdict import judge
from kernel_delay.analysis.verdict.gain import RoundGains
from kernel_delay.model import (
    Finding,
    LockWait,
    OtherThread,
    PageFaults,
    Round,
    Sample,
    Sleep,
    SyscallStats,
    Thread,
    TriggerHit,
    Window,
)
from kernel_delay.reporters.rounds import gain_lines
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window
from tests.unit.verdict_samples import samples_of

MS = 10**6
HOUR_NS = 3600 * 10**9
TID = 31
HIT = TriggerHit("usdt:main:start", TID, "handler4")

HELD = replace(
    timed_thread(TID, "handler4", user=100),
    lock_waits=(LockWait(0x1000, 32, "owner", 1, 400 * MS),),
    sleeps=(Sleep("futex", "futex", (), False, 1, 400 * MS, 400 * MS),),
)


def round_of(thread: Thread, *others: OtherThread) -> Sample:
    """A judged round of the thread, of half a second."""
    sample = bare_sample(thread, window=window("poll", TIMED_WINDOW_NS))
    return judge(replace(sample, round=Round(thread.tid, thread.name, number=7, others=others)))


def between_triggers(*threads: Thread, **of_window: object) -> Sample:
    """A judged window of half a second between two triggers of the first thread."""
    hits: dict[str, object] = {"start_trigger": HIT, "stop_trigger": HIT}
    found = replace(window("trigger", TIMED_WINDOW_NS), **(hits | of_window))
    return judge(bare_sample(*threads, window=found))


def first_of(sample: Sample) -> Finding:
    """The first finding."""
    return sample.verdict[0]


def bounds_of(finding: Finding) -> tuple[int | None, int | None]:
    """How long the interval would have taken without it, at least and at most."""
    return finding.without_least_ns, finding.without_most_ns


def test_round_without_its_wait_takes_the_rest() -> None:
    found = first_of(round_of(timed_thread(TID, "handler4", user=100, ready=400)))
    assert bounds_of(found) == (100 * MS, 100 * MS)
    sentence = "Without this delay, the round would have taken about 100.0 ms instead of 500.0 ms."
    assert found.details[0] == sentence
    assert f"80 % of the round. {sentence} Who had the CPU" in found.text


def test_interval_between_triggers_is_called_so() -> None:
    found = first_of(between_triggers(timed_thread(TID, "handler4", user=100, stopped=400)))
    assert bounds_of(found) == (100 * MS, 100 * MS)
    assert "the interval would have taken about 100.0 ms" in found.text


def test_line_of_a_round_has_no_gain() -> None:
    sample = round_of(timed_thread(TID, "handler4", user=100, ready=400))
    assert "Without this delay" in first_of(sample).text
    assert "Without this delay" not in main_cause(sample)
    assert "80 % of the round. Who had the CPU" in main_cause(sample)


def test_other_sleep_makes_the_rest_a_bound() -> None:
    found = first_of(round_of(timed_thread(TID, "handler4", user=50, blocked=50, ready=400)))
    assert bounds_of(found) == (100 * MS, None)
    assert "would have taken at least 100.0 ms instead of" in found.text


def test_other_threads_work_makes_the_rest_a_bound() -> None:
    helper = OtherThread(33, "helper", 90 * MS, 0, "futex")
    assert bounds_of(first_of(round_of(HELD, helper))) == (100 * MS, None)
    thread = timed_thread(TID, "handler4", user=100, ready=400)
    busy = timed_thread(33, "helper", user=90, blocked=410)
    assert bounds_of(first_of(between_triggers(thread, busy))) == (100 * MS, None)
    idle = timed_thread(33, "helper", blocked=500)
    assert bounds_of(first_of(between_triggers(thread, idle))) == (100 * MS, 100 * MS)


def test_work_of_a_locks_owner_is_no_overlap() -> None:
    found = first_of(round_of(HELD, OtherThread(32, "owner", 400 * MS, 0, "futex")))
    assert found.rule == "lock"
    assert bounds_of(found) == (100 * MS, 100 * MS)


def test_calls_of_a_wait_may_go_with_it() -> None:
    stats = SyscallStats(
        75,
        "fdatasync",
        40,
        450 * MS,
        20 * MS,
        on_cpu_ns=50 * MS,
        blocked_ns=360 * MS,
        ready_ns=40 * MS,
    )
    slept = Sleep("disk", "fdatasync", ("submit_bio_wait",), True, 40, 360 * MS, 20 * MS)
    thread = timed_thread(TID, "handler4", user=50, kernel=50, ready=40, blocked=360)
    sample = round_of(replace(thread, syscalls=(stats,), sleeps=(slept,)))
    found = first_of(sample)
    assert (found.rule, bounds_of(found)) == ("wait_disk", (50 * MS, 140 * MS))
    assert "would have taken between 50.0 ms and 140.0 ms instead of 500.0 ms." in found.text


def test_stop_may_hide_a_part_of_a_wait() -> None:
    slept = Sleep("pipe", "read", ("pipe_read",), False, 1, 200 * MS, 200 * MS)
    thread = timed_thread(TID, "handler4", user=100, stopped=200, blocked=200)
    found = {each.rule: each for each in round_of(replace(thread, sleeps=(slept,))).verdict}
    assert bounds_of(found["wait_pipe"]) == (100 * MS, 300 * MS)
    assert bounds_of(found["stopped"]) == (300 * MS, None)


def test_wait_in_unseen_page_faults_has_no_least() -> None:
    slept = Sleep("page_cache", None, ("folio_wait_bit",), True, 1, 200 * MS, 200 * MS)
    thread = replace(timed_thread(TID, "handler4", user=300, blocked=200), sleeps=(slept,))
    assert bounds_of(first_of(round_of(thread))) == (None, 300 * MS)
    unknown = first_of(round_of(thread, OtherThread(33, "helper", 90 * MS, 0, "futex")))
    assert bounds_of(unknown) == (None, None)
    assert "Without this delay" not in unknown.text
    seen = replace(thread, page_faults=PageFaults(900, 50 * MS, 200 * MS))
    found = {each.rule: each for each in round_of(seen).verdict}
    assert bounds_of(found["wait_page_cache"]) == (250 * MS, 300 * MS)


def test_estimated_delay_makes_the_rest_the_most() -> None:
    for sample in samples_of("doubtful_user"):
        found = {each.rule: each for each in round_of(sample.threads[0]).verdict}
        if finding := found.get("doubtful_user"):
            lost_ns = finding.evidence["lost_ns"]
            assert bounds_of(finding) == (None, TIMED_WINDOW_NS - lost_ns)


def test_quota_makes_the_rest_of_a_wait_a_bound() -> None:
    slept = Sleep("pipe", "read", ("pipe_read",), False, 1, 200 * MS, 200 * MS)
    thread = timed_thread(TID, "handler4", user=100, throttled=200, blocked=200)
    found = {each.rule: each for each in round_of(replace(thread, sleeps=(slept,))).verdict}
    assert bounds_of(found["wait_pipe"]) == (300 * MS, None)


def test_small_gain_has_no_sentence() -> None:
    found = first_of(round_of(timed_thread(TID, "handler4", user=455, ready=45)))
    assert bounds_of(found) == (455 * MS, 455 * MS)
    assert "Without this delay" not in found.text


def test_only_the_first_finding_has_the_sentence() -> None:
    sample = round_of(timed_thread(TID, "handler4", user=100, ready=300, stopped=100))
    first, second = sample.verdict
    assert bounds_of(first) == (200 * MS, 200 * MS)
    assert bounds_of(second) == (400 * MS, 400 * MS)
    assert "Without this delay" in first.text
    assert "Without this delay" not in second.text


def test_own_code_of_a_round_has_no_gain() -> None:
    for sample in samples_of("user_work"):
        (thread, *_) = sample.threads
        found = {each.rule: each for each in round_of(thread).verdict}
        assert bounds_of(found["user_work"]) == (None, None)


@pytest.mark.parametrize(
    "of_window",
    [
        {"stop_trigger": replace(HIT, tid=32)},
        {"start_trigger": None},
        {"start_trigger": replace(HIT, tid=0), "stop_trigger": replace(HIT, tid=0)},
        {"ended_by": "timeout"},
    ],
)
def test_other_windows_are_no_intervals(of_window: dict[str, object]) -> None:
    thread = timed_thread(TID, "handler4", user=100, stopped=400)
    found = first_of(between_triggers(thread, **of_window))
    assert bounds_of(found) == (None, None)
    assert "Without this delay" not in found.text


def test_other_threads_delays_have_no_gain() -> None:
    own = timed_thread(TID, "handler4", user=500)
    found = first_of(between_triggers(own, timed_thread(32, "other", user=100, stopped=400)))
    assert found.tid == 32
    assert bounds_of(found) == (None, None)


def test_window_of_several_processes_has_no_gain() -> None:
    thread = timed_thread(TID, "handler4", user=100, stopped=400)
    sample = between_triggers(thread)
    found = first_of(judge(replace(sample, processes=2, verdict=())))
    assert bounds_of(found) == (None, None)


def test_cut_round_has_no_gain() -> None:
    sample = round_of(timed_thread(TID, "handler4", user=100, stopped=400))
    cut: Window = replace(sample.window, ended_by="exit")
    assert bounds_of(first_of(judge(replace(sample, window=cut, verdict=())))) == (None, None)


def summary(*samples: Sample, watched_ns: int, threshold_ns: int = 300 * MS) -> list[str]:
    """What `watch` prints of them in the end."""
    gains = RoundGains(threshold_ns)
    for sample in samples:
        gains.add(sample)
    return list(gain_lines(gains, threshold_ns, watched_ns))


def test_summary_has_the_rounds_each_cause_made_long() -> None:
    contended = round_of(timed_thread(TID, "handler4", user=100, ready=400))
    stopped = round_of(timed_thread(TID, "handler4", user=100, stopped=400))
    busy = round_of(timed_thread(TID, "handler4", user=350, ready=150))
    assert summary(contended, stopped, contended, busy, watched_ns=2 * HOUR_NS) == [
        "Without cpu_contention, 2 of 4 recorded rounds would have been below 300.0 ms,"
        " 1.0 an hour.",
        "Without stopped, 1 of 4 recorded rounds would have been below 300.0 ms, 0.5 an hour.",
    ]


def test_summary_of_a_short_watch_has_no_rate() -> None:
    contended = round_of(timed_thread(TID, "handler4", user=100, ready=400))
    (line,) = summary(contended, watched_ns=HOUR_NS // 60)
    assert line == "Without cpu_contention, 1 of 1 recorded round would have been below 300.0 ms."


def test_summary_of_bounds_says_up_to() -> None:
    waited = round_of(timed_thread(TID, "handler4", user=50, blocked=50, ready=400))
    (line,) = summary(waited, watched_ns=0)
    assert line.startswith("Without cpu_contention, up to 1 of 1 recorded round ")


def test_rounds_that_stay_long_have_no_summary() -> None:
    contended = round_of(timed_thread(TID, "handler4", user=100, ready=400))
    assert summary(contended, watched_ns=HOUR_NS, threshold_ns=100 * MS) == []
