"""How verdicts are held against the truth: what is staged, and what the kernel counted."""

import ctypes
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kernel_delay.model import CpuTaker, Finding, Sample, Thread
from tests.unit.samples import bare_sample, timed_thread
from tests.verdicts.judge import judge, witness
from tests.verdicts.oracle import Count, Span, count
from tests.verdicts.run import names, stage_of
from tests.verdicts.staging import PR_SET_NAME
from tests.verdicts.truth import HEALTHY, Truth, cause
from tests.workload import wait_until

MS = 1_000_000
TICKER = 8
HOG = 7
LOCK = cause("lock", names=("owner", 5), also=("user_work", "kernel_sleep"), innocent=(6,))


def finding(rule: str, text: str, **values: Any) -> Finding:
    return Finding(rule=rule, who="program", share=0.5, tid=1, text=text, **values)


def sample(*findings: Finding, taken: tuple[CpuTaker, ...] = (), ready: int = 0) -> Sample:
    thread: Thread = replace(timed_thread(1, "victim", ready=ready), cpu_taken_by=taken)
    return replace(bare_sample(thread), verdict=findings)


def span(ran: dict[int, int] | None = None, waited: int = 1000 * MS, steal: int = 0) -> Span:
    """A second's counts; thread 1, the victim's, did not run."""
    before = Count(ran={}, waited={}, runnable=frozenset(), idle={0: 0, 1: 0}, steal_ns=0)
    after = Count({1: 0, **(ran or {})}, {1: waited}, frozenset(), {0: 0, 1: 900 * MS}, steal)
    return Span(before, after, 1000 * MS)


def outcome(judged: Sample, truth: Truth, counted: Span | None = None) -> str:
    return judge(judged, truth, witness([judged], counted or span())).outcome


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ((), "nothing"),
        ((finding("lock", "owner (5) held it"),), "right"),
        ((finding("lock", "somebody held it"),), "vague"),
        ((finding("kernel_sleep", "slept in futex"),), "vague"),
        ((finding("user_work", "own code", remark=True),), "nothing"),
        ((finding("user_work", "the kernel is not to blame", remark=True),), "FALSE"),
        ((finding("wait_pipe", "waited for a pipe", remark=True),), "nothing"),
        ((finding("wait_disk", "waited for a disk"),), "FALSE"),
        ((finding("lock", "owner (5) held it, and (6) did"),), "FALSE"),
        ((finding("lock", "owner (5) held it"), finding("throttled", "was")), "FALSE"),
    ],
)
def test_a_verdict_is_held_against_what_was_staged(
    findings: tuple[Finding, ...], expected: str
) -> None:
    assert outcome(sample(*findings), LOCK) == expected


def test_a_healthy_program_may_have_remarks_and_no_finding() -> None:
    remarks = (
        finding("user_work", "the kernel is not to blame", remark=True),
        finding("wait_pipe", "waited for a pipe", remark=True),
    )
    assert outcome(sample(*remarks), HEALTHY) == "right"
    assert outcome(sample(finding("lock", "held")), HEALTHY) == "FALSE"


CONTENTION = finding("cpu_contention", f"had no CPU; hog ({HOG}), ticker ({TICKER}) ran")
TAKEN = (CpuTaker(HOG, "hog", 10, 250 * MS), CpuTaker(TICKER, "ticker", 10, 200 * MS))


@pytest.mark.parametrize(
    ("ran", "waited_ms", "expected"),
    [
        ({HOG: 260 * MS, TICKER: 210 * MS}, 450, "right"),
        ({HOG: 260 * MS, TICKER: 20 * MS}, 450, "FALSE"),
        ({HOG: 260 * MS}, 450, "right"),
        ({HOG: 260 * MS, TICKER: 210 * MS}, 300, "FALSE"),
    ],
    ids=["as counted", "ran less", "ended meanwhile", "waited less"],
)
def test_cpu_wait_is_compared_with_the_kernels_counts(
    ran: dict[int, int], waited_ms: int, expected: str
) -> None:
    judged = sample(CONTENTION, taken=TAKEN, ready=450)
    assert outcome(judged, HEALTHY, span(ran, waited_ms * MS)) == expected


def test_unfinished_wait_is_not_counted_yet() -> None:
    judged = sample(CONTENTION, taken=TAKEN, ready=450)
    counted = span({HOG: 260 * MS, TICKER: 210 * MS}, waited=10 * MS)
    assert outcome(judged, HEALTHY, counted) == "FALSE"
    waits = replace(counted.after, runnable=frozenset({1}))
    assert outcome(judged, HEALTHY, replace(counted, after=waits)) == "right"


def test_being_throttled_is_no_wait_for_a_cpu() -> None:
    judged = sample(CONTENTION, taken=TAKEN, ready=450)
    counted = span({HOG: 260 * MS, TICKER: 210 * MS}, waited=450 * MS)
    assert outcome(judged, HEALTHY, counted) == "right"
    assert outcome(judged, HEALTHY, replace(counted, throttled_ns=700 * MS)) == "FALSE"


def test_idle_cpu_may_wake_slowly_but_takes_no_cpu() -> None:
    found = finding("cpu_contention", "had no CPU; the CPU idled or woke up")
    slow = (CpuTaker(0, "idle", 1000, 90 * MS),)
    assert outcome(sample(found, taken=slow, ready=90), HEALTHY) == "right"
    throttled = (CpuTaker(0, "idle", 10, 700 * MS),)
    assert outcome(sample(found, taken=throttled, ready=700), HEALTHY) == "FALSE"


def test_pinned_beside_an_idle_cpu_is_to_be_told() -> None:
    truth = cause("cpu_contention", names=(HOG,), pinned=True)
    counted = span({HOG: 260 * MS, TICKER: 210 * MS})
    judged = sample(CONTENTION, taken=TAKEN, ready=450)
    assert outcome(judged, truth, counted) == "vague"
    told = replace(CONTENTION, text=f"{CONTENTION.text}; its affinity allows it CPU 0 alone")
    assert outcome(replace(judged, verdict=(told,)), truth, counted) == "right"


def test_steal_is_held_against_the_kernels_counts() -> None:
    stolen = sample(finding("steal", "the hypervisor", evidence={"lost_ns": 80 * MS}))
    assert outcome(stolen, HEALTHY, span(steal=100 * MS)) == "right"
    assert outcome(stolen, HEALTHY, span(steal=10 * MS)) == "FALSE"


def test_page_faults_of_a_healthy_program_are_held_against_the_kernels_counts() -> None:
    worked = finding("doubtful_user", "had 45,000 page faults", evidence={"lost_ns": 140 * MS})
    counted = span()
    for counted_ms, expected in ((140, "right"), (90, "FALSE")):
        after = replace(counted.after, system={1: counted_ms * MS})
        assert outcome(sample(worked), HEALTHY, replace(counted, after=after)) == expected
    unexplained = replace(worked, text="The cause is not known.")
    assert outcome(sample(unexplained), HEALTHY, counted) == "FALSE"


def test_a_task_of_any_name_is_counted() -> None:
    named, done = threading.Event(), threading.Event()

    def be_called_so() -> None:
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"\x8b) S (\xff", 0, 0, 0)
        named.set()
        done.wait()

    thread = threading.Thread(target=be_called_so)
    thread.start()
    named.wait()
    # It has said so, and is on its way to sleep.
    state = Path(f"/proc/self/task/{thread.native_id}/stat")
    wait_until(lambda: state.read_bytes().rpartition(b")")[2].split()[0] == b"S")
    try:
        counted = count()
    finally:
        done.set()
        thread.join()
    assert thread.native_id in counted.ran
    assert thread.native_id not in counted.runnable


def test_each_case_is_a_stage() -> None:
    cases = names()
    assert len([name for name in cases if name.startswith("causes/")]) >= 40
    assert len([name for name in cases if name.startswith("healthy/")]) >= 20
    for name in cases:
        assert callable(stage_of(name))
