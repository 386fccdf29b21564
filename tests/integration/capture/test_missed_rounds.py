"""Rounds at whose beginning a switch was missed, where of all calls polls alone are hooked."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kernel_delay.capture.plan import RoundPlan
from kernel_delay.capture.rounds import watch as rounds_watch
from kernel_delay.capture.rounds.watch import Watch
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from tests.integration.capture.captures import assert_accounted
from tests.integration.capture.test_cgroups import is_asleep
from tests.integration.capture.test_missed_events import Holed
from tests.verdicts.cgroups import cpu_quota, join
from tests.verdicts.oracle import throttled_ns
from tests.verdicts.truth import NotHereError
from tests.workload import wait_until

pytestmark = pytest.mark.usefixtures("measurable")

MS = 1_000_000
THRESHOLD_MS, LENGTH_MS = 100, 400

# Waits for a word, and does that. It answers as its poll ends, spins until it is told to go on, and
# answers as it is done. A nap ends by a signal, and nobody is told of it before.
WORK = f"""
import os, select, signal, time
os.set_blocking(0, False)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

def compute(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until: pass

while True:
    select.select([0], [], [])
    work = os.read(0, 100)
    if not work: break
    if work == b"nap": signal.sigwait([signal.SIGUSR1])
    os.write(1, b"b")
    while True:
        try:
            os.read(0, 100)
            break
        except BlockingIOError: pass
    if work == b"compute": compute({LENGTH_MS / 1000})
    if work == b"sleep": time.sleep({LENGTH_MS / 1000})
    os.write(1, b"e")
"""


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize("missed", [("on_sched_switch",), ("on_sched_switch", "on_sched_wakeup")])
@pytest.mark.parametrize("work", ["compute", "sleep"])
def test_round_is_reported_if_the_switch_it_began_with_was_missed(
    work: str, missed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with target_of(monkeypatch) as target:

        def ask() -> None:
            target.tell(b"nothing", b"b")
            target.tell(b"go on", b"e")
            target.wait_until_it_polls()
            with target.programs.blind(*missed):
                target.tell(work.encode(), b"b")
            target.tell(b"go on", b"e")

        # Where the machine is slow others are long too: it spins until it is told to go on.
        sample = max(target.rounds(ask), key=lambda each: each.window.duration_ns)

    its = assert_accounted(sample).time
    assert its is not None
    ran_ns = its.user_ns + its.kernel_ns + its.hard_irq_ns + its.soft_irq_ns
    done_ns = its.blocked_ns if work == "sleep" else ran_ns
    assert done_ns >= 0.9 * LENGTH_MS * MS - its.ready_ns, its


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize("missed", [("on_sched_switch",), ("on_sched_switch", "on_sched_wakeup")])
def test_round_is_reported_if_it_sleeps_before_anything_is_seen(
    missed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with target_of(monkeypatch) as target:
        sample = target.longest_of_nap(*missed)

    assert sample.window.duration_ns >= LENGTH_MS * MS
    its = assert_accounted(sample).time
    assert its is not None
    assert its.blocked_ns + its.unaccounted_ns >= 0.9 * LENGTH_MS * MS - its.ready_ns, its


def test_round_is_reported_if_the_return_of_its_poll_was_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where all calls are hooked."""
    with target_of(monkeypatch, calls=True) as target:
        sample = target.longest_of_nap("on_sys_exit")

    assert_accounted(sample)
    assert sample.window.duration_ns >= LENGTH_MS * MS


@pytest.mark.usefixtures("earlier_calls")
@pytest.mark.parametrize("missed", [("on_sched_switch",), ("on_sched_switch", "on_sched_wakeup")])
def test_poll_is_no_round_if_the_switch_into_it_was_missed(
    missed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with target_of(monkeypatch) as target:

        def ask() -> None:
            target.tell(b"nothing", b"b")
            with target.programs.blind(*missed):
                target.tell(b"go on", b"e")
                target.wait_until_it_polls()
            time.sleep(LENGTH_MS / 1000)
            target.tell(b"nothing", b"b")
            target.tell(b"go on", b"e")
            target.wait_until_it_polls()

        assert_none_slept_unseen(target.rounds(ask))


def assert_none_slept_unseen(samples: list[Sample]) -> None:
    """Rounds that are long by waits for a CPU aside, there are none."""
    for sample in samples:
        its = assert_accounted(sample).time
        assert its is not None
        assert its.unaccounted_ns + its.blocked_ns < LENGTH_MS * MS / 2


# Waits for its ring until a signal's handler is called.
RING = """
import ctypes, signal
kernel = ctypes.CDLL(None)
io_uring_setup, io_uring_enter, getevents = 425, 426, 1
ring = kernel.syscall(io_uring_setup, 8, ctypes.create_string_buffer(120))
signal.signal(signal.SIGUSR1, lambda *_: None)
print(ring, flush=True)
while ring >= 0: kernel.syscall(io_uring_enter, ring, 0, 1, getevents, None, 0)
"""


@pytest.mark.usefixtures("earlier_calls")
def test_ring_is_waited_for_in_no_round_if_the_switch_was_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [sys.executable, "-c", RING]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as target:
        assert target.stdout is not None
        if int(target.stdout.readline()) < 0:
            pytest.skip("this kernel has no rings for this process (io_uring_setup(2))")
        with watch_of(target.pid, monkeypatch) as watch:
            programs = programs_of(watch)

            def interrupt() -> None:
                with programs.blind("on_sched_switch"):
                    target.send_signal(signal.SIGUSR1)
                    time.sleep(THRESHOLD_MS / 2000)
                time.sleep(LENGTH_MS / 1000)
                target.send_signal(signal.SIGUSR1)
                time.sleep(THRESHOLD_MS / 2000)
                target.kill()

            interrupting = threading.Thread(target=interrupt)
            interrupting.start()
            samples = list(watch.rounds())
            interrupting.join()
    assert_none_slept_unseen(samples)


# Polls what has an event at once, again and again.
POLLS = "import select; p = select.poll(); p.register(0); print(flush=True)\nwhile True: p.poll(0)"
QUOTA_US, PERIOD_US, TRIES = 60_000, 400_000, 4


@pytest.mark.usefixtures("earlier_calls")
def test_who_is_throttled_on_its_way_out_of_a_poll_unseen_has_a_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unseen_ns: list[int] = []
    with ExitStack() as stack:
        try:
            group = stack.enter_context(cpu_quota(QUOTA_US, PERIOD_US))
        except NotHereError as error:
            pytest.skip(str(error))
        command = [sys.executable, "-c", POLLS]
        target = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        )
        stack.callback(target.kill)
        assert target.stdout is not None
        target.stdout.readline()
        join(group, target.pid)
        watch = stack.enter_context(watch_of(target.pid, monkeypatch))
        programs = programs_of(watch)

        def miss() -> None:
            for _ in range(TRIES):
                wait_for_period(group)
                before_ns, begun_ns = throttled_ns(group), time.monotonic_ns()
                with programs.blind("on_sched_switch"):
                    time.sleep(PERIOD_US / 2e6)
                    now_ns = time.monotonic_ns()
                wait_for_period(group)
                # It was throttled until about now.
                since_ns = time.monotonic_ns() - (throttled_ns(group) - before_ns)
                if begun_ns < since_ns < now_ns:
                    unseen_ns.append(now_ns)
            target.kill()

        missing = threading.Thread(target=miss)
        missing.start()
        windows = [sample.window for sample in watch.rounds()]
        missing.join()
    for at_ns in unseen_ns:
        assert any(window.start_ns <= at_ns <= window.stop_ns for window in windows)


def wait_for_period(group: Path) -> None:
    """Wait until the next period of its quota begins."""
    before = periods_of(group)
    wait_until(lambda: periods_of(group) > before, "a period")


def periods_of(group: Path) -> int:
    """In how many it wanted a CPU."""
    statistics = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(statistics["nr_periods"])


class Asked:
    """A program that does what it is told, and the watch of it."""

    def __init__(self, process: "subprocess.Popen[bytes]", watch: Watch) -> None:
        self._process = process
        self._watch = watch
        self.programs = programs_of(watch)

    def tell(self, word: bytes, answer: bytes) -> None:
        """Tell it one word, and wait for its answer."""
        self.write(word)
        self.hear(answer)

    def write(self, word: bytes) -> None:
        """Tell it one word."""
        assert self._process.stdin is not None
        self._process.stdin.write(word)

    def hear(self, answer: bytes) -> None:
        """Wait for its answer."""
        assert self._process.stdout is not None
        assert self._process.stdout.read(1) == answer

    def longest_of_nap(self, *missed: str) -> Sample:
        """Have it nap after a short round, and return the longest round that it had."""
        samples = self.rounds(lambda: self._nap(*missed))
        return max(samples, key=lambda each: each.window.duration_ns)

    def _nap(self, *missed: str) -> None:
        """Have it sleep for LENGTH_MS in a call; `missed` do not see how it got there."""
        self.tell(b"nothing", b"b")
        self.tell(b"go on", b"e")
        self.wait_until_it_polls()
        poll = self.call()
        with self.programs.blind(*missed):
            self.write(b"nap")
            wait_until(lambda: self.call() not in (poll, "running"), "the nap")
        time.sleep(LENGTH_MS / 1000)
        self._process.send_signal(signal.SIGUSR1)
        self.hear(b"b")
        self.tell(b"go on", b"e")

    def call(self) -> str:
        """The call that it is in; see proc_pid_syscall(5)."""
        return Path(f"/proc/{self._process.pid}/syscall").read_text().split()[0]

    def wait_until_it_polls(self) -> None:
        """It sleeps nowhere else."""
        wait_until(lambda: is_asleep(self._process.pid), "the next poll")

    def rounds(self, ask: Callable[[], None]) -> list[Sample]:
        """Have it asked, and return the long rounds that it had until it ended."""
        stdin = self._process.stdin
        assert stdin is not None

        def ask_and_end() -> None:
            ask()
            stdin.close()

        asking = threading.Thread(target=ask_and_end)
        asking.start()
        samples = list(self._watch.rounds())
        asking.join()
        return samples


def programs_of(watch: Watch) -> Holed:
    """What can be kept from seeing events."""
    programs = watch._programs
    assert isinstance(programs, Holed)
    return programs


def watch_of(pid: int, monkeypatch: pytest.MonkeyPatch, *, calls: bool = False) -> Watch:
    """A watch whose programs can be."""
    monkeypatch.setattr(rounds_watch, "Programs", Holed)
    return Watch(find_target(pid), RoundPlan(threshold_ns=THRESHOLD_MS * MS, calls=calls))


@contextmanager
def target_of(monkeypatch: pytest.MonkeyPatch, *, calls: bool = False) -> Iterator[Asked]:
    """A program to be asked."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", WORK]
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as target,
        watch_of(target.pid, monkeypatch, calls=calls) as watch,
    ):
        yield Asked(target, watch)
