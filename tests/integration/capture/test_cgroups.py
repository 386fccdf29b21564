"""A CPU quota and a freezer are states of their own, as long as the cgroup's own files say."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.analysis.timeline import by_thread
from kernel_delay.model import Sample, ThreadTime
from tests.emulation import is_emulated
from tests.integration.capture.in_process import measured
from tests.integration.capture.workload import known_syscall
from tests.needs import make_real_time
from tests.timeline_accounts import account_of
from tests.workload import compile_workload, wait_until

MS = 1_000_000

# Burns a CPU for as many seconds as it is told, and says when it has.
BURNER = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    end = time.monotonic() + float(line)
    while time.monotonic() < end:
        pass
    print("done", flush=True)
"""

QUOTA_US, PERIOD_US = 5_000, 100_000

# kernel/sched/core.c:max_cfs_quota_period, 5.14 to 6.18.
MAX_PERIOD_US = 1_000_000

# Threads that wait for one CPU.
CROWD = 3

# cpu.stat counts each CPU's run queue, so they are on one. Most other tests that need a CPU, some
# of them with real-time priority, run on the last one.
CPU = min(os.sched_getaffinity(0))

TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# More than a task of the highest priority waits for others to be taken off its CPU.
LATE_NS = (40 if is_emulated() else 8) * MS


class Cgroup:
    """A cgroup of its own, of version 1 or 2."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder = folder
        self.version = version

    def add(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, period_us: int = PERIOD_US) -> None:
        """Let it have a twentieth of a CPU, or less."""
        if self.version == 2:
            (self.folder / "cpu.max").write_text(f"{QUOTA_US} {period_us}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(period_us))
            (self.folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))

    def prefer(self) -> None:
        """Let it have its CPU before the others of the machine: nice(2) is for those in one."""
        if self.version == 2:
            (self.folder / "cpu.weight").write_text("10000")
        else:
            (self.folder / "cpu.shares").write_text("262144")

    def throttled_ns(self) -> int:
        """What the kernel has counted: cpu.stat of sched-bwc.rst and cgroup-v2.rst."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        values = dict(line.split() for line in lines)
        if self.version == 2:
            return int(values["throttled_usec"]) * 1000
        return int(values["throttled_time"])

    def freeze(self, frozen: bool) -> None:
        """Freeze or thaw it, and return when that is done."""
        if self.version == 2:
            (self.folder / "cgroup.freeze").write_text("1" if frozen else "0")
            file, wanted = "cgroup.events", f"frozen {int(frozen)}"
        else:
            wanted = "FROZEN" if frozen else "THAWED"
            (self.folder / "freezer.state").write_text(wanted)
            file = "freezer.state"
        while wanted not in (self.folder / file).read_text():
            time.sleep(0.001)


def mounted(kind: str, option: str) -> Path | None:
    """Where a file system of that kind and with that option is mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, mounted_kind, options, *_ = line.split()
        if mounted_kind == kind and (not option or option in options.split(",")):
            return Path(place)
    return None


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make(parent: Path, version: int, closing: ExitStack) -> Cgroup:
    folder = parent / f"kernel-delay-{os.getpid()}"
    folder.mkdir()
    closing.callback(folder.rmdir)
    return Cgroup(folder, version)


def unified(controller: str, tmp_path: Path, closing: ExitStack) -> Path | None:
    """The root of version 2 with that controller for its children; None if there is none."""
    root = mounted("cgroup2", "")
    if root is None:
        root = tmp_path / "cgroup2"
        root.mkdir()
        if subprocess.run(["mount", "-t", "cgroup2", "none", root], check=False).returncode:
            return None
        closing.callback(lambda: subprocess.run(["umount", root], check=True))
    if controller:
        if controller not in (root / "cgroup.controllers").read_text().split():
            return None
        (root / "cgroup.subtree_control").write_text(f"+{controller}")
    return root


@pytest.fixture
def quota(root_user: None, tmp_path: Path, closing: ExitStack) -> Cgroup:
    """A cgroup with a quota of 5 ms each 100 ms."""
    parent, version = mounted("cgroup", "cpu"), 1
    if parent is None:
        parent, version = unified("cpu", tmp_path, closing), 2
    if parent is None:
        pytest.skip("this machine has no cgroups with the CPU controller")
    found = make(parent, version, closing)
    found.limit()
    found.prefer()
    return found


def start_burner(cgroup: Cgroup, closing: ExitStack) -> "subprocess.Popen[str]":
    """Start it there, on one CPU."""
    process = subprocess.Popen(
        [sys.executable, "-c", BURNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    closing.enter_context(process)
    closing.callback(process.kill)
    os.sched_setaffinity(process.pid, {CPU})
    os.setpriority(os.PRIO_PROCESS, process.pid, -20)
    cgroup.add(process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ran_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def busy_ns() -> int:
    """How long tasks and interrupts have had CPU, and a hypervisor took it: proc_stat(5)."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{CPU}":
            user, nice, system, _idle, _iowait, *interrupts_and_steal = map(int, ticks[:8])
            return (user + nice + system + sum(interrupts_and_steal)) * TICK_NS
    raise LookupError(CPU)


def burn(process: "subprocess.Popen[str]", seconds: float) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{seconds}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def use_up(quota: Cgroup, process: "subprocess.Popen[str]") -> None:
    """Have a process burn on, and wait until it has used up the quota of its longest period."""
    quota.limit(period_us=MAX_PERIOD_US)
    assert process.stdin is not None
    ran_before_ns = ran_ns(process.pid)
    process.stdin.write("600\n")
    process.stdin.flush()
    wait_until(lambda: ran_ns(process.pid) - ran_before_ns >= QUOTA_US * 1000)


def time_of(sample: Sample) -> ThreadTime:
    (thread,) = sample.threads
    assert thread.time is not None
    assert sum(getattr(thread.time, field) for field in thread.time.__struct_fields__) == (
        sample.window.duration_ns
    )
    return thread.time


def unknown_ns(sample: Sample) -> int:
    """What is not known of the thread's time because an event was missed."""
    return time_of(sample).unaccounted_ns if sample.lost.missed_events else 0


def running_ns(its: ThreadTime) -> int:
    return its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns


def check_timeline(sample: Sample) -> None:
    """Its slices add up to each account in which no event was missed."""
    assert sample.timeline is not None
    found = {tid: account_of(slices, sample.window) for tid, slices in by_thread(sample.timeline)}
    for thread in sample.threads:
        if thread.time is not None and not thread.time.unaccounted_ns:
            assert found[thread.tid] == thread.time


def rules(sample: Sample) -> set[str]:
    return {finding.rule for finding in sample.verdict if not finding.remark}


def test_cpu_quota_is_reported_as_throttling_without_cpu_contention(
    quota: Cgroup, closing: ExitStack
) -> None:
    burner = start_burner(quota, closing)
    counted: list[int] = []
    busy_before_ns = busy_ns()

    def work() -> None:
        before_ns = quota.throttled_ns()
        burn(burner, 2.0)
        # Time off a run queue is counted when it is over.
        time.sleep(2 * PERIOD_US / 1e6)
        counted.append(quota.throttled_ns() - before_ns)

    sample = measured(burner.pid, work, timeline=True)
    check_timeline(sample)
    found = time_of(sample)
    assert counted[0] > 100 * MS
    tolerance_ns = max(2 * MS, counted[0] // 100)
    # After each period it may have to wait for its CPU: the kernel does not tell when it may run.
    # Others have that then.
    late_ns = max(
        LATE_NS * (sample.window.duration_ns // (PERIOD_US * 1000) + 1),
        busy_ns() - busy_before_ns - running_ns(found),
    )
    # What a missed switch hid is neither.
    least_ns = -tolerance_ns - found.unaccounted_ns
    if is_emulated():
        # What it does before it sleeps may use the quota up: it sleeps while that lasts.
        least_ns -= found.blocked_ns
    assert least_ns <= found.throttled_ns - counted[0] <= tolerance_ns + late_ns
    assert "throttled" in rules(sample)
    assert "cpu_contention" not in rules(sample) or found.ready_ns > 50 * MS


def test_cpu_time_of_a_cgroup_is_that_of_all_its_processes(
    quota: Cgroup, closing: ExitStack
) -> None:
    burners = [start_burner(quota, closing) for _ in range(2)]
    counts = mounted("cgroup", "cpuacct") if quota.version == 1 else None
    if counts is not None and counts.resolve() != quota.folder.parent.resolve():
        counted = make(counts, 1, closing)
        for burner in burners:
            counted.add(burner.pid)
            closing.callback(burner.wait)
            closing.callback(burner.kill)
    ran: list[int] = []

    def work() -> None:
        before = [ran_ns(burner.pid) for burner in burners]
        other = threading.Thread(target=burn, args=(burners[1], 1.5))
        other.start()
        burn(burners[0], 0.4)
        other.join()
        ran.extend(
            ran_ns(burner.pid) - its_ns for burner, its_ns in zip(burners, before, strict=True)
        )

    sample = measured(burners[0].pid, work)
    assert sample.system_state is not None
    limit = sample.system_state.cgroup
    assert limit is not None
    assert limit.used_ns is not None
    # Each process also ran to begin and to end with that. The file counts in microseconds.
    assert -1_000 <= limit.used_ns - sum(ran) <= sum(ran) // 10 + LATE_NS
    (said,) = (finding for finding in sample.verdict if finding.rule == "throttled")
    # What a missed event hid of the process it may have run.
    hidden_ns = unknown_ns(sample)
    # Who runs more on an emulated CPU, two of them at a time, is not sure.
    others_ns = limit.used_ns - ran[0] - hidden_ns
    assert "Other processes had " in said.text or 2 * (others_ns - LATE_NS) <= limit.used_ns
    assert " of the CPU time that its cgroup used." in said.text or hidden_ns


def test_threads_queued_behind_a_quota_user_are_throttled(
    quota: Cgroup, closing: ExitStack
) -> None:
    # On one CPU: they wait for each other alone.
    command: list[str] = [str(compile_workload("crowded")), str(CROWD)]
    crowd = closing.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
    closing.callback(crowd.kill)
    assert crowd.stdout is not None
    crowd.stdout.readline()
    os.kill(crowd.pid, signal.SIGSTOP)
    for tid in map(int, os.listdir(f"/proc/{crowd.pid}/task")):
        os.sched_setaffinity(tid, {CPU})
    quota.add(crowd.pid)
    counted: list[int] = []
    busy_before_ns = busy_ns()

    def work() -> None:
        before_ns = quota.throttled_ns()
        os.kill(crowd.pid, signal.SIGCONT)
        time.sleep(1.0)
        os.kill(crowd.pid, signal.SIGSTOP)
        time.sleep(3 * PERIOD_US / 1e6)
        counted.append(quota.throttled_ns() - before_ns)

    sample = measured(crowd.pid, work, timeline=True)
    have_run_ns = busy_ns() - busy_before_ns
    check_timeline(sample)
    periods = sample.window.duration_ns // (PERIOD_US * 1000) + 1
    for thread in sample.threads:
        time_ = thread.time
        assert time_ is not None
        if time_.user_ns < MS:
            continue
        # In each period the others may run before it, and what has the CPU may keep it from that.
        late_ns = periods * (LATE_NS + QUOTA_US * 1000)
        assert counted[0] - time_.unaccounted_ns - late_ns <= time_.throttled_ns
        # Until it gets on a CPU again it counts as throttled: others may have that, and an emulated
        # one takes its time.
        others_ns = have_run_ns - running_ns(time_)
        assert is_emulated() or time_.throttled_ns <= counted[0] + max(late_ns, others_ns)
        idle_ns = sum(taker.ns for taker in thread.cpu_taken_by if taker.comm == "idle")
        assert idle_ns <= periods * MS
    assert "throttled" in rules(sample)


def test_thread_throttled_before_the_window_stays_throttled(
    quota: Cgroup, closing: ExitStack
) -> None:
    burner = start_burner(quota, closing)
    burn(burner, QUOTA_US / 1e6)
    # Most of the time it is throttled, and so it is when the programs come.
    use_up(quota, burner)
    sample = measured(burner.pid, lambda: time.sleep(0.2), timeline=True)
    check_timeline(sample)
    found = time_of(sample)
    # Whether it is throttled is not known after a switch that was missed.
    assert found.throttled_ns + unknown_ns(sample) > found.ready_ns


def test_real_time_thread_has_no_cpu_beside_a_used_quota(quota: Cgroup, closing: ExitStack) -> None:
    """Its group counts as throttled before 6.18, and only the fair class is held back by that."""
    fair, thread, taker = (start_burner(quota, closing) for _ in range(3))
    use_up(quota, fair)
    # With CONFIG_RT_GROUP_SCHED a group has no real-time threads until it has time for them.
    real_time = quota.folder / "cpu.rt_runtime_us"
    if real_time.exists():
        real_time.write_text("900000")
    make_real_time(thread.pid, 1)
    make_real_time(taker.pid, 2)

    def work() -> None:
        ran_before_ns = ran_ns(thread.pid)
        other = threading.Thread(target=burn, args=(thread, 0.6))
        other.start()
        # It has its CPU before that is taken from it, however late this machine has it begin.
        wait_until(lambda: ran_ns(thread.pid) - ran_before_ns >= 5 * MS)
        burn(taker, 0.3)
        other.join()

    found = time_of(measured(thread.pid, work))
    assert not found.throttled_ns
    assert found.ready_ns + found.unaccounted_ns > 50 * MS


@pytest.mark.parametrize("version", [1, 2])
def test_the_freezer_that_holds_it_is_named(
    version: int, root_user: None, tmp_path: Path, closing: ExitStack
) -> None:
    parent = mounted("cgroup", "freezer") if version == 1 else unified("", tmp_path, closing)
    if parent is None:
        pytest.skip(f"this machine has no freezer of cgroup version {version}")
    outer = make(parent, version, closing)
    inner = make(outer.folder, version, closing)
    # A quota above it, or of another hierarchy.
    cpu = mounted("cgroup", "cpu")
    if cpu is not None:
        quota = make(cpu, 1, closing)
        quota.limit()
    elif version == 2:
        (parent / "cgroup.subtree_control").write_text("+cpu")
        outer.limit()
    burner = start_burner(inner, closing)
    if cpu is not None:
        quota.add(burner.pid)
    closing.callback(inner.freeze, False)

    def work() -> None:
        assert burner.stdin is not None
        burner.stdin.write("1.0\n")
        burner.stdin.flush()
        time.sleep(0.2)
        inner.freeze(True)
        time.sleep(0.3)

    sample = measured(burner.pid, work)
    (frozen,) = (finding for finding in sample.verdict if finding.rule == "frozen")
    file, value = ("freezer.state", "THAWED") if version == 1 else ("cgroup.freeze", "0")
    assert frozen.advice == f"Thaw it: echo {value} >{inner.folder / file}"


@pytest.mark.parametrize("version", [1, 2])
def test_a_freezer_is_a_state_of_its_own(
    version: int, root_user: None, tmp_path: Path, closing: ExitStack
) -> None:
    parent = mounted("cgroup", "freezer") if version == 1 else unified("", tmp_path, closing)
    if parent is None:
        pytest.skip(f"this machine has no freezer of cgroup version {version}")
    cgroup = make(parent, version, closing)
    burner = start_burner(cgroup, closing)
    closing.callback(cgroup.freeze, False)
    least, most = [], []

    def work() -> None:
        assert burner.stdin is not None
        burner.stdin.write("1.0\n")
        burner.stdin.flush()
        time.sleep(0.2)
        began_ns = time.monotonic_ns()
        cgroup.freeze(True)
        frozen_ns = time.monotonic_ns()
        time.sleep(0.5)
        thawing_ns = time.monotonic_ns()
        cgroup.freeze(False)
        least.append(thawing_ns - frozen_ns)
        most.append(time.monotonic_ns() - began_ns)

    sample = measured(burner.pid, work)
    found = time_of(sample)
    # One that is to freeze may wait for a CPU before it does.
    least_ns = least[0] - MS - found.unaccounted_ns - found.ready_ns
    assert least_ns <= found.frozen_ns <= most[0] + MS
    # If its switch was missed, what it did is not known, and it is thawed by now.
    assert "frozen" in rules(sample) or unknown_ns(sample) > least[0] // 2


@pytest.fixture
def freezer(root_user: None, closing: ExitStack) -> Cgroup:
    """A cgroup of version 1's freezer."""
    parent = mounted("cgroup", "freezer")
    if parent is None:
        pytest.skip("this machine has no freezer of cgroup version 1")
    return make(parent, 1, closing)


def start_sleepers(
    cgroup: Cgroup, first: str, seconds: float, closing: ExitStack
) -> "subprocess.Popen[str]":
    """Start them there; `first` is what the first thread does: read(2) can't be frozen."""
    process = closing.enter_context(
        subprocess.Popen(
            [compile_workload("sleepers"), first, str(int(seconds * 1e9))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    closing.callback(process.kill)
    cgroup.add(process.pid)
    closing.callback(cgroup.freeze, False)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    wait_until(lambda: all_sleep(process.pid))
    return process


def all_sleep(pid: int) -> bool:
    """Whether each thread is in the call in which it sleeps: proc_pid_syscall(5).

    Until then it may wait for the others, in futex(2).
    """
    tasks = Path(f"/proc/{pid}/task").iterdir()
    calls = {(task / "syscall").read_text().split()[0] for task in tasks}
    return not calls & {"running", str(known_syscall("futex"))}


def times_of(sample: Sample) -> dict[bool, list[ThreadTime]]:
    """Return what its threads did, those of the first one apart."""
    check_timeline(sample)
    found: dict[bool, list[ThreadTime]] = {False: [], True: []}
    for thread in sample.threads:
        assert thread.time is not None
        assert sum(getattr(thread.time, field) for field in thread.time.__struct_fields__) == (
            sample.window.duration_ns
        )
        assert sum(sleep.ns for sleep in thread.sleeps) == thread.time.blocked_ns
        found[thread.tid == sample.target.pid].append(thread.time)
    return found


@pytest.mark.parametrize("is_thawed", [True, False])
def test_a_freezer_that_finds_a_thread_asleep_is_seen(
    freezer: Cgroup, is_thawed: bool, closing: ExitStack
) -> None:
    sleepers = start_sleepers(freezer, "reads", 0.002, closing)
    least, most = [], []

    def work() -> None:
        time.sleep(0.2)
        began_ns = time.monotonic_ns()
        freezer.freeze(True)
        frozen_ns = time.monotonic_ns()
        time.sleep(0.5)
        thawing_ns = time.monotonic_ns()
        if is_thawed:
            freezer.freeze(False)
        least.append(thawing_ns - frozen_ns)
        most.append(time.monotonic_ns() - began_ns)
        if is_thawed:
            time.sleep(0.1)

    sample = measured(sleepers.pid, work, timeline=True)
    times = times_of(sample)
    late_ns = LATE_NS if is_thawed else sample.window.duration_ns
    for found in times[True] + times[False]:
        assert found.frozen_ns + found.unaccounted_ns >= least[0] - LATE_NS
        assert found.frozen_ns <= most[0] + late_ns
    assert len(times[False]) == 3
    assert "frozen" in rules(sample)


def test_sleepers_frozen_during_the_window_are_frozen_or_unaccounted(
    freezer: Cgroup, closing: ExitStack
) -> None:
    sleepers = start_sleepers(freezer, "sleeps", 0.002, closing)
    least = []

    def work() -> None:
        freezer.freeze(True)
        frozen_ns = time.monotonic_ns()
        time.sleep(0.5)
        least.append(time.monotonic_ns() - frozen_ns)
        freezer.freeze(False)
        time.sleep(0.1)

    times = times_of(measured(sleepers.pid, work, timeline=True))
    for found in times[True] + times[False]:
        assert found.unaccounted_ns + found.frozen_ns >= least[0] - LATE_NS


def is_asleep(pid: int) -> bool:
    """Whether the kernel says that the first thread sleeps: one that is frozen is a D there.

    fs/proc/array.c:get_task_state(). Before Linux 6.1 a sleeper is frozen when it wakes.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_sleeper_frozen_before_the_window_is_frozen(freezer: Cgroup, closing: ExitStack) -> None:
    sleepers = start_sleepers(freezer, "sleeps", 600, closing)
    freezer.freeze(True)
    state = "blocked_ns" if is_asleep(sleepers.pid) else "frozen_ns"
    sample = measured(sleepers.pid, lambda: time.sleep(0.2), timeline=True)
    times = times_of(sample)
    for found in times[True] + times[False]:
        assert getattr(found, state) == sample.window.duration_ns


def test_sleeper_thawed_before_its_wakeup_lost_nothing(freezer: Cgroup, closing: ExitStack) -> None:
    sleepers = start_sleepers(freezer, "reads", 600, closing)
    least = []

    def work() -> None:
        freezer.freeze(True)
        frozen_ns = time.monotonic_ns()
        time.sleep(0.2)
        least.append(time.monotonic_ns() - frozen_ns)
        freezer.freeze(False)
        time.sleep(0.1)

    sample = measured(sleepers.pid, work, timeline=True)
    times = times_of(sample)
    (first,) = times[True]
    assert first.frozen_ns + first.unaccounted_ns >= least[0] - LATE_NS
    for found in times[False]:
        # Before Linux 6.7 it is woken all the same.
        is_woken = found.frozen_ns + found.unaccounted_ns >= least[0] - LATE_NS
        assert is_woken or found.blocked_ns == sample.window.duration_ns
