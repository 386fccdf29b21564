"""--wakers stacks: from where a thread was woken, in the kernel and in the waker's program."""

import json
import os
import platform
import subprocess
import sys
import threading
import time

import pytest

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.session import Session, SessionOptions
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample, Waker
from tests import commands
from tests.needs import is_preempt_rt
from tests.verdicts.staging import workload

pytestmark = pytest.mark.usefixtures("root_user", "measurable")

READER = "import os\nprint(flush=True)\nwhile os.read(0, 1): pass"


def captured(pid: int, *, waker_stacks: bool = True) -> Sample:
    options = SessionOptions(waker_stacks=waker_stacks)
    plan = WindowPlan(sample_time_ns=500_000_000)
    with Session(find_target(pid), plan, options) as session:
        (sample,) = session.samples()
    return sample


def wakers(sample: Sample, name: str, reason: str) -> list[Waker]:
    """Threads that woke the threads of that name from sleeps for that reason."""
    return [
        waker
        for thread in sample.threads
        if thread.name == name
        for sleep in thread.sleeps
        if sleep.reason == reason
        for waker in sleep.wakers
        if waker.kind == "thread"
    ]


@pytest.mark.usefixtures("earlier_calls")
def test_a_mutex_is_given_by_the_owners_function() -> None:
    with workload("contended", "mutex", "sleep", 5_000) as victim:
        sample = captured(victim.pid)
        (waker,) = wakers(sample, "victim", "futex")
        assert waker.tid == victim.reported["owner"]
        assert "futex_wake" in waker.kernel_stack
        assert not any("bpf" in name for name in waker.kernel_stack)
        behind = waker.user_stack[waker.user_stack.index("owner") + 1 :]
        # The libc of arm64's guests has no name for it.
        assert "start_thread" in behind or (behind and platform.machine() == "aarch64")
        plain = captured(victim.pid, waker_stacks=False)
        assert {each.user_stack for each in wakers(plain, "victim", "futex")} == {()}


@pytest.mark.usefixtures("earlier_calls")
def test_a_pipe_is_written_to_by_another_process() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", READER], stdin=pipe, stdout=pipe) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        # A busy machine may have it start in the window else.
        reader.stdout.readline()
        fd, over = reader.stdin.fileno(), threading.Event()

        def write() -> None:
            while not over.is_set():
                os.write(fd, b"x")
                time.sleep(0.01)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            (thread,) = captured(reader.pid).threads
        finally:
            over.set()
            writer.join()
    # With PREEMPT_RT the pipe's mutex may be waited for too.
    slept = [sleep for sleep in thread.sleeps if sleep.reason == "pipe"]
    assert len(slept) == 1 or is_preempt_rt()
    sleep = max(slept, key=lambda sleep: sleep.ns)
    (waker,) = sleep.wakers
    assert waker.pid == os.getpid()
    assert any(name.endswith("pipe_write") for name in waker.kernel_stack)
    assert "write" in waker.user_stack[0]
    assert any("Eval" in name for name in waker.user_stack)


@pytest.mark.usefixtures("earlier_calls")
def test_text_and_json_have_them() -> None:
    with workload("contended", "mutex", "sleep", 5_000) as victim:
        options = ("--pid", victim.pid, "--sample-time", 1, "--wakers", "stacks")
        text = commands.run(*options).stdout
        reported = commands.run(*options, "--json").stdout
    assert "# WAKERS BY STACK" in text
    assert f"owner ({victim.reported['owner']})" in text.partition("# WAKERS BY STACK")[2]
    assert "futex_wake" in text
    assert '"user_stack":["' in json.dumps(json.loads(reported), separators=(",", ":"))
