"""Six things that make the main thread of a real Open vSwitch slow, on purpose."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from kernel_delay.model import Sample
from tests.integration.long_rounds import MAIN, LongRounds
from tests.watching.truth import Share, schedstat
from tests.workload import wait_until

LONG_MS = 1050

# For so long another task has the CPU of a main thread that computes.
HOG_S = 1.3
LONGEST_SPIN_MS = 60_000

# A command that takes so much of a CPU is slow, on any machine; tried with so many flows first.
COMMAND_S = 1.4
FIRST_FLOWS = 50_000

# Of a flow's number: its Ethernet address.
FLOW = (
    "in_port(1),eth(src=00:00:00:{0:02x}:{1:02x}:{2:02x},dst=00:00:00:00:00:01),eth_type(0x0800),"
    "ipv4(src=10.0.0.1,frag=no) drop\n"
)

# The real-time policy leaves others a twentieth of each second.
HOG = """
import os, sys, time
cpu = int(sys.argv[1])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print("ready", flush=True)
for line in sys.stdin:
    until = time.monotonic() + float(line)
    while time.monotonic() < until:
        pass
    print("done", flush=True)
"""


class Cause(Struct, frozen=True):
    """What makes one round long: the largest share of it, and whether a record names that.

    `prepare` is what is to be done before, and may be slow too.
    """

    name: str
    share: Share
    provoke: Callable[[], None]
    is_named: Callable[[Sample], bool]
    prepare: Callable[[], None] = lambda: None


class Causes(Struct, frozen=True):
    """All six, and the process that takes the CPU in one of them."""

    causes: list[Cause]
    hog: int


@contextmanager
def prepared(rounds: LongRounds) -> Iterator[Causes]:
    """Prepare all six; they are gone in the end."""
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(rounds.ovs.pid, {cpu})
    flows = rounds.ovs.folder / "flows"
    _write_flows(rounds, flows)
    command = [sys.executable, "-c", HOG, str(cpu)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hog:
        _wait_for(hog, b"ready\n")

        def forget_flows() -> None:
            rounds.ovs.appctl("dpctl/del-flows")
            rounds.settle()

        def add_flows() -> None:
            rounds.ovs.appctl("dpctl/add-flows", os.fspath(flows))
            rounds.settle()

        causes = [
            Cause("CPU hog", "hog", lambda: _hog(rounds, hog), lambda each: _is_hog(each, hog.pid)),
            Cause("slow command", "own", add_flows, is_own_work, forget_flows),
            Cause("system calls", "own", lambda: _make(rounds, "kernel"), is_own_work),
            Cause("SIGSTOP", "off", lambda: _stop(rounds), lambda each: rule(each) == "stopped"),
            Cause("blocking write", "off", lambda: _make(rounds, "write"), _is_write),
            Cause("lock", "off", lambda: _make(rounds, "lock"), _is_lock),
        ]
        try:
            yield Causes(causes, hog.pid)
        finally:
            hog.kill()


def rule(sample: Sample) -> str | None:
    """The rule of the worst finding."""
    findings = [each for each in sample.verdict if not each.remark]
    return findings[0].rule if findings else None


def _wait_for(hog: "subprocess.Popen[bytes]", line: bytes) -> None:
    assert hog.stdout is not None
    assert hog.stdout.readline() == line


def _make(rounds: LongRounds, what: str) -> None:
    rounds.ask(MAIN, what, LONG_MS)
    rounds.settle()
    wait_until(rounds.done, f"the end of {what}")


def _hog(rounds: LongRounds, hog: "subprocess.Popen[bytes]") -> None:
    rounds.ask(MAIN, "spin", LONGEST_SPIN_MS)
    # It is answered when the round is over.
    waker = threading.Thread(target=rounds.settle)
    waker.start()
    wait_until(rounds.taken, "the work", every_s=0.001)
    assert hog.stdin is not None
    hog.stdin.write(b"%f\n" % HOG_S)
    hog.stdin.flush()
    _wait_for(hog, b"done\n")
    rounds.release()
    waker.join()


def _is_hog(sample: Sample, pid: int) -> bool:
    finding = sample.verdict[0]
    return finding.rule == "cpu_contention" and finding.evidence.get("taker_tid") == pid


def _write_flows(rounds: LongRounds, path: Path) -> None:
    """As many as take COMMAND_S of a CPU to be added here."""
    count = FIRST_FLOWS
    while True:
        path.write_text(
            "".join(FLOW.format(i >> 16 & 255, i >> 8 & 255, i & 255) for i in range(count))
        )
        before_ns = schedstat(rounds.ovs.pid).ran_ns
        rounds.ovs.appctl("dpctl/add-flows", os.fspath(path))
        took_s = (schedstat(rounds.ovs.pid).ran_ns - before_ns) / 1e9
        rounds.ovs.appctl("dpctl/del-flows")
        if took_s >= COMMAND_S:
            return
        count = int(count * min(4.0, 1.2 * COMMAND_S / took_s))


def is_own_work(sample: Sample) -> bool:
    """Whether it says that the thread itself ran for most of it."""
    return rule(sample) in ("user_work", "kernel_work")


def _stop(rounds: LongRounds) -> None:
    stat = Path(f"/proc/{rounds.ovs.pid}/stat")

    def go_on() -> None:
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the stop")
        time.sleep(LONG_MS / 1000)
        os.kill(rounds.ovs.pid, signal.SIGCONT)

    waker = threading.Thread(target=go_on)
    waker.start()
    _make(rounds, "stop")
    waker.join()


def _is_write(sample: Sample) -> bool:
    finding = sample.verdict[0]
    return finding.rule == "wait_pipe" and "slow_reader" in finding.text


def _is_lock(sample: Sample) -> bool:
    finding = sample.verdict[0]
    return finding.rule in ("lock", "wait_futex") and "lock_holder" in finding.text
