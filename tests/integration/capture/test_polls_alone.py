"""Where of all calls polls alone are hooked: what a long round ran in the others, by samples."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernel_delay.analysis.verdict import judge
from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds.watch import Watch
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from tests.emulation import is_emulated
from tests.integration.capture.captures import assert_accounted
from tests.workload import wait_until

NS_PER_MS = 1_000_000
RAN_NS = 1_000 * NS_PER_MS

# Polls, and waits until its round is old; then it computes and reads by turns, each for a share
# of what it runs. The clock of a thread is read seldom: that is a call.
WORK = """
import json, os, select, sys, time
random, buffers = os.open("/dev/urandom", os.O_RDONLY), [bytearray(1 << 18)]

def run(until_ns, step):
    begun_ns = ran_ns = time.thread_time_ns()
    while ran_ns - begun_ns < until_ns:
        step()
        ran_ns = time.thread_time_ns()
    return ran_ns - begun_ns

for line in sys.stdin:
    own_ns, read_ns = json.loads(line)
    select.select([], [], [], 0)
    print("begun", flush=True)
    sys.stdin.readline()
    ran = [0, 0]
    for _ in range(20):
        ran[0] += run(own_ns // 20, lambda: sum(range(10_000)))
        ran[1] += run(read_ns // 20, lambda: os.readv(random, buffers))
    select.select([], [], [], 0)
    print(json.dumps(ran), flush=True)
"""


def worked(shares: tuple[float, float]) -> tuple[Sample, tuple[int, int]]:
    """A round with that much of its own code and of calls; and how long it ran of each."""
    pipe = subprocess.PIPE
    ran: list[int] = []
    looked = threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdin=pipe, stdout=pipe, text=True
    ) as target:
        stdin, stdout = target.stdin, target.stdout
        assert stdin is not None
        assert stdout is not None

        def ask() -> None:
            print(json.dumps([int(share * RAN_NS) for share in shares]), file=stdin, flush=True)
            assert stdout.readline() == "begun\n"
            # By the third look its round was old, and is sampled.
            for _ in range(3):
                looked.clear()
                looked.wait()
            print("go on", file=stdin, flush=True)
            ran.extend(json.loads(stdout.readline()))
            stdin.close()

        asking = threading.Thread(target=ask)
        plan = RoundPlan(threshold_ns=500 * NS_PER_MS)
        with Watch(find_target(target.pid), plan) as watch:
            asking.start()
            samples = list(watch.rounds(looked.set))
        asking.join()
    own_ns, read_ns = ran
    return max(samples, key=lambda each: each.window.duration_ns), (own_ns, read_ns)


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((1.0, 0.0), marks=pytest.mark.long),
        (0.5, 0.5),
        pytest.param((0.2, 0.8), marks=pytest.mark.long),
        pytest.param((0.0, 1.0), marks=pytest.mark.long),
    ],
)
def test_samples_show_what_ran_in_calls(shares: tuple[float, float]) -> None:
    sample, (own_ns, read_ns) = worked(shares)

    (thread,) = sample.threads
    time = assert_accounted(sample).time
    assert time is not None
    called_ns = sum(call.on_cpu_ns or 0 for call in thread.syscalls)
    ran_ns = time.user_ns + time.kernel_ns
    read_share = read_ns / (own_ns + read_ns)
    # A busy machine's emulated CPU takes fewer samples: what has none is in neither.
    without_ns = thread.unsplit_ns if is_emulated() else 0
    # Of a thousand samples so many are in calls, within six deviations; a soft IRQ may end them.
    assert called_ns / ran_ns < read_share + 0.1
    assert (called_ns + without_ns) / ran_ns > read_share - 0.1
    assert called_ns > 0 or read_ns == 0
    # All that it ran is exact; on an emulated CPU interrupts have much of it.
    interrupts_ns = time.hard_irq_ns + time.soft_irq_ns
    assert ran_ns + interrupts_ns >= (own_ns + read_ns) * 0.9
    assert is_emulated() or thread.unsplit_ns < 0.1 * ran_ns
    # Of a wait for a CPU behind a preemption it is not known whether that was in a call.
    called_ns = sum(call.ready_ns or 0 for call in thread.syscalls)
    assert called_ns <= time.ready_ns - (thread.preempted_ns or 0)


@pytest.mark.usefixtures("earlier_calls")
def test_other_calls_and_page_faults_are_not_counted() -> None:
    sample, _ = worked((0.5, 0.5))

    (thread,) = sample.threads
    assert "calls" in sample.unseen
    assert [call.count for call in thread.syscalls if call.name == "readv"] == [0]
    assert thread.page_faults is None
    slept = {call.name: call.blocked_ns for call in thread.syscalls}
    assert (slept["read"] or 0) >= sum(sleep.ns for sleep in thread.sleeps) * 0.9


# Its rounds are over before anybody looks: 3 ms of its own code, and as much in calls.
SHORT = """
import os, select, sys, time
buffers = [bytearray(1 << 16)]
random = os.open("/dev/urandom", os.O_RDONLY)

def run(step):
    begun_ns = ran_ns = time.thread_time_ns()
    while ran_ns - begun_ns < 3_000_000:
        step()
        ran_ns = time.thread_time_ns()
    return ran_ns - begun_ns

for line in sys.stdin:
    select.select([], [], [], 0)
    own_ns = run(lambda: sum(range(1_000)))
    run(lambda: os.readv(random, buffers))
    select.select([], [], [], 0)
    print(own_ns, flush=True)
"""


@pytest.mark.usefixtures("earlier_calls")
def test_what_no_sample_shows_is_not_called_own_code() -> None:
    pipe = subprocess.PIPE
    own: list[int] = []
    command = [sys.executable, "-c", SHORT]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as target:
        stdin, stdout = target.stdin, target.stdout
        assert stdin is not None
        assert stdout is not None

        def ask() -> None:
            print("go on", file=stdin, flush=True)
            own.append(int(stdout.readline()))
            stdin.close()

        asking = threading.Thread(target=ask)
        with Watch(find_target(target.pid), RoundPlan(threshold_ns=NS_PER_MS)) as watch:
            asking.start()
            samples = [judge(sample) for sample in watch.rounds()]
        asking.join()
    sample = max(samples, key=lambda each: each.window.duration_ns)
    (thread,) = sample.threads
    assert thread.time is not None
    # A sample stands for 1.5 ms at most, and there may be some on a busy machine.
    assert thread.time.user_ns - thread.unsplit_ns <= own[0] + 2 * NS_PER_MS
    for finding in sample.verdict:
        assert "was in its own code" not in finding.text or 2 * thread.unsplit_ns <= sum(own)


# Its polls are stopped before they begin, and what it does between two of them is no poll's.
@pytest.mark.usefixtures("earlier_calls")
def test_rounds_of_a_traced_thread_end_with_its_polls() -> None:
    count, pipe = 3, subprocess.PIPE
    loop = (
        "import select, time\n"
        "for _ in range(4):\n"
        "    select.select([], [], [], 0.01)\n"
        "    until = time.monotonic() + 0.06\n"
        "    while time.monotonic() < until: pass\n"
        "select.select([], [], [], 0)\n"
    )
    command = [sys.executable, "-c", f"input()\n{loop}"]
    with subprocess.Popen(command, stdin=pipe, text=True) as target:
        tracing = ["strace", "--output=/dev/null", "--attach", str(target.pid)]
        with subprocess.Popen(tracing, stderr=subprocess.DEVNULL) as tracer:
            wait_until(lambda: tracer_of(target.pid) == tracer.pid, "the tracer")
            plan = RoundPlan(threshold_ns=50 * NS_PER_MS)
            with Watch(find_target(target.pid), plan) as watch:
                assert target.stdin is not None
                print("go on", file=target.stdin, flush=True)
                samples = list(watch.rounds())
    assert len(samples) >= count


def tracer_of(pid: int) -> int:
    """Which process traces it: proc_pid_status(5)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("TracerPid:")[2].split()[0])


# kernel/trace/fprobe.c and kernel/trace/bpf_trace.c, from 5.18 on.
BY_FUNCTIONS = {"register_fprobe_ips", "bpf_kprobe_multi_link_attach"}


@pytest.mark.usefixtures("earlier_calls")
def test_polls_are_hooked_at_their_functions_where_the_kernel_can() -> None:
    """Then no other call of any process passes a program."""
    symbols = {line.split()[2] for line in Path("/proc/kallsyms").read_text().splitlines()}
    with Watch(find_target(os.getppid()), RoundPlan(threshold_ns=500 * NS_PER_MS)):
        # But for the folder's own, which is closed by then.
        files = [Path("/proc/self/fdinfo") / number for number in os.listdir("/proc/self/fd")]
        links = [file.read_text() for file in files if file.exists()]

    by_functions = any("link_type:\tkprobe_multi" in link for link in links)
    assert by_functions == (symbols >= BY_FUNCTIONS)
