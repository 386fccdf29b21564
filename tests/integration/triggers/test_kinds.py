"""Every kind of trigger, alone at the start, alone at the stop, and at both boundaries."""

import platform

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.probes.kernel import KPROBE_PMU
from tests.emulation import few, scaled
from tests.integration.triggers.sessions import HANGS_NS, session, trigger
from tests.integration.triggers.targets import StartTarget

SAMPLE_TIME_NS = 5_000_000
ROUNDS = scaled(800)

# The kernel's own function of getppid(2).
GETPPID = {"x86_64": "__x64_sys_getppid", "aarch64": "__arm64_sys_getppid"}.get(platform.machine())

KPROBES = [
    pytest.mark.skipif(not KPROBE_PMU.exists(), reason="this kernel has no kprobes"),
    pytest.mark.skipif(GETPPID is None, reason="getppid(2)'s function is not known here"),
]
PAIRS = [
    pytest.param("u:kd_rounds:start", "usdt:kd_rounds:stop", id="usdt"),
    pytest.param("up:round_work", "ur:round_work", id="uprobe"),
    pytest.param(
        "t:syscalls:sys_enter_getppid", "trace:syscalls:sys_exit_getppid", id="tracepoint"
    ),
    pytest.param(f"k:{GETPPID}", f"kr:{GETPPID}", id="kprobe", marks=KPROBES),
]
# The same by their long names.
PAIRS += few(
    [
        pytest.param(
            "uprobe:round_work", "uretprobe:round_work", id="uprobe-long", marks=pytest.mark.long
        ),
        pytest.param(f"kprobe:{GETPPID}", f"kretprobe:{GETPPID}", id="kprobe-long", marks=KPROBES),
    ],
    2,
)


@pytest.mark.parametrize(("start", "stop"), PAIRS)
def test_start_only(start_rounds: StartTarget, start: str, stop: str) -> None:
    workload = start_rounds(SAMPLE_TIME_NS)
    workload.go(1_000_000)
    for text in (start, stop):
        plan = WindowPlan(
            sample_time_ns=SAMPLE_TIME_NS,
            count=2,
            start=trigger(text, workload.pid),
            timeout_ns=HANGS_NS,
        )
        with session(workload.pid, plan) as running:
            windows = [sample.window for sample in running.samples()]
        assert len(windows) == 2
        for window in windows:
            assert (window.ended_by, window.stop_trigger) == ("time", None)
            assert window.duration_ns == SAMPLE_TIME_NS
            assert window.start_trigger is not None
            assert window.start_trigger.trigger == text


@pytest.mark.parametrize(("start", "stop"), PAIRS)
def test_stop_only(start_rounds: StartTarget, start: str, stop: str) -> None:
    workload = start_rounds(SAMPLE_TIME_NS)
    workload.go(1_000_000)
    for text in (start, stop):
        stop_points = trigger(text, workload.pid)
        plan = WindowPlan(sample_time_ns=1, count=2, stop=stop_points, timeout_ns=HANGS_NS)
        with session(workload.pid, plan) as running:
            windows = [sample.window for sample in running.samples()]
        assert len(windows) == 2
        for window in windows:
            assert (window.ended_by, window.start_trigger) == ("trigger", None)
            assert window.start_ns < window.stop_ns
            assert window.stop_trigger is not None
            assert window.stop_trigger.trigger == text


@pytest.mark.parametrize(("start", "stop"), PAIRS)
def test_both(start_rounds: StartTarget, start: str, stop: str) -> None:
    """Every pair of hits is a window."""
    workload = start_rounds(0)
    plan = WindowPlan(
        sample_time_ns=1,
        count=1_000_000,
        start=trigger(start, workload.pid),
        stop=trigger(stop, workload.pid),
        same_thread=True,
        timeout_ns=HANGS_NS,
    )
    with session(workload.pid, plan) as running:
        workload.go(ROUNDS)
        rounds = workload.rounds()
        workload.finish()
        windows = [sample.window for sample in running.samples()]
    others = 0
    for window in windows:
        assert window.start_trigger is not None
        assert window.start_trigger.trigger == start
        if window.start_trigger.tid != workload.pid:
            others += 1
            continue
        assert window.stop_trigger is not None
        assert (window.stop_trigger.trigger, window.stop_trigger.tid) == (stop, workload.pid)
    # What is in the kernel, any process may hit; while its window is open, ours do not count.
    hits = sum(known.getppids for known in rounds) if "getppid" in start else ROUNDS
    assert len(windows) - others == hits if not others else len(windows) - others <= hits
