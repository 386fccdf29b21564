"""`kernel-delay watch --metrics`, scraped while a program works."""

import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

import kernel_delay
from kernel_delay.metrics.families import FAMILIES
from tests.commands import KERNEL_DELAY
from tests.integration.capture.workload import StartWorkload, known_syscall
from tests.otlp_receiver import Receiver, attributes
from tests.workload import HANGS_S, wait_until

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
MOST_SERIES = 332
TIME = "kernel_delay_thread_seconds_total"


class Scrape(NamedTuple):
    """What a scrape said, between two moments."""

    before_ns: int
    text: str
    after_ns: int

    def families(self) -> dict[str, Metric]:
        return {each.name: each for each in text_string_to_metric_families(self.text)}

    def value(self, sample: str, **labels: str) -> float:
        """The sum of the samples of that name that have these labels."""
        return sum(
            each.value
            for metric in self.families().values()
            for each in metric.samples
            if each.name == sample and labels.items() <= each.labels.items()
        )


class Watching(NamedTuple):
    """A running watch with metrics."""

    process: "subprocess.Popen[bytes]"
    url: str
    errors: IO[bytes]

    def scrape(self) -> Scrape:
        before_ns = time.monotonic_ns()
        with urllib.request.urlopen(self.url, timeout=HANGS_S) as answer:
            text = bytes(answer.read()).decode()
        return Scrape(before_ns, text, time.monotonic_ns())


@contextmanager
def watching(pid: int, *options: str) -> Iterator[Watching]:
    command = [*KERNEL_DELAY, "watch", "--pid", str(pid), "--metrics", "0", *options]
    with tempfile.TemporaryFile() as errors, subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=errors
    ) as process:  # fmt: skip
        said = [b""]

        def is_attached() -> bool:
            assert process.poll() is None, said
            # To seek would move where the watch writes: both have the one open file.
            said[0] = os.pread(errors.fileno(), os.fstat(errors.fileno()).st_size, 0)
            return b": watching" in said[0]

        try:
            wait_until(is_attached, "the watch")
            found = re.search(r"metrics are at (\S+)", said[0].decode())
            assert found
            yield Watching(process, found[1], errors)
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            assert process.wait(HANGS_S) in (0, 128 + signal.SIGINT)
        finally:
            if process.poll() is None:
                process.kill()


def test_metrics_have_all_time_of_a_hundred_threads(start_workload: StartWorkload) -> None:
    """What they have more from one scrape to the next is the time that went by, a thread each."""
    threads = 100
    workload = start_workload("crowd", threads, 0)
    with watching(workload.pid) as watch:
        # A thread each; they sleep from now on.
        workload.ask()
        first = last = watch.scrape()

        def is_later() -> bool:
            # For a while after a state that took long to read the same is served.
            nonlocal last
            last = watch.scrape()
            return last.value(TIME) > first.value(TIME)

        time.sleep(0.5)
        wait_until(is_later, "a later state")

    assert last.value("kernel_delay_threads") == threads + 1
    assert last.value("kernel_delay_threads", thread_class="main") == 1
    more_s = sum(scrape.value(TIME) * sign for scrape, sign in ((last, 1), (first, -1)))
    least_ns, most_ns = last.before_ns - first.after_ns, last.after_ns - first.before_ns
    assert least_ns <= more_s * NS_PER_S / (threads + 1) <= most_ns
    assert sum(len(metric.samples) for metric in last.families().values()) <= MOST_SERIES
    assert last.families().keys() <= {family.name for family in FAMILIES}
    assert last.value("kernel_delay_watching") == 1
    assert last.value("kernel_delay_own_cpu_seconds_total") > 0


def test_metrics_count_calls_rounds_and_long_rounds(start_workload: StartWorkload) -> None:
    long_ns = 300 * NS_PER_MS
    workload = start_workload("poll_threads", 5, long_ns)
    with watching(workload.pid, "--threshold", "0.2", "--no-stacks") as watch:
        before = watch.scrape()
        workload.ask()

        def is_reported() -> bool:
            return watch.scrape().value("kernel_delay_long_rounds_total") >= 1

        wait_until(is_reported, "the long round")
        after = watch.scrape()

    assert before.value("kernel_delay_long_rounds_total") == 0
    long_rounds = after.value("kernel_delay_round_seconds_count") - after.value(
        "kernel_delay_round_seconds_bucket", le="0.134217727"
    )
    missed = after.value("kernel_delay_losses_total")
    assert long_rounds >= 1
    assert after.value("kernel_delay_round_seconds_sum", thread_class="main") >= long_ns / NS_PER_S
    # Threads that lived shorter than from one scrape to the next.
    polls = after.value("kernel_delay_syscalls_total")
    assert polls + missed >= 5 * 3


def test_waits_and_roots_are_those_of_the_records(
    start_workload: StartWorkload, tmp_path: Path
) -> None:
    workload = start_workload("long_work", 20)
    options = ("--threshold", "0.004", "--min-gap", "0", "--chains", "--max-cpu", "100")
    with watching(workload.pid, *options, "--output", str(tmp_path)) as watch:
        workload.ask()
        waited = "kernel_delay_wait_seconds_total"
        wait_until(lambda: watch.scrape().value(waited, reason="clock") > 0, "a record")
        found = watch.scrape()

    threads = [
        thread
        for path in tmp_path.glob("*.kdr")
        for sample in kernel_delay.open_recording(path)
        for thread in sample.threads
    ]
    for reason in ("clock", "short"):
        # Rounds that were reported after the scrape have records too.
        slept_ns = sum(
            each.ns for thread in threads for each in thread.sleeps if each.reason == reason
        )
        assert round(found.value(waited, reason=reason) * NS_PER_S) <= slept_ns
    chains_ns = sum(thread.chain.ns for thread in threads if thread.chain)
    assert round(found.value("kernel_delay_root_seconds_total") * NS_PER_S) <= chains_ns
    # It sleeps in nanosleep in each round, unless its CPU comes too late for that.
    assert found.value(waited, thread_class="main", reason="clock") > 0
    assert found.value("kernel_delay_root_seconds_total", state="blocked") > 0


def test_what_only_grows_never_goes_down(start_workload: StartWorkload) -> None:
    """While threads come and go, wait and are scraped at any time."""
    workload = start_workload("crowd", 4, 2000)
    with watching(workload.pid) as watch:
        scrapes = [watch.scrape()]
        workload.send("go")
        for _ in range(8):
            scrapes.append(watch.scrape())
        workload.line()
        scrapes.append(watch.scrape())

    growing = {family.name for family in FAMILIES if family.kind != "gauge"}
    for earlier, later in pairwise(scrapes):
        now = later.families()
        for name in growing & earlier.families().keys():
            known = {
                (each.name, tuple(sorted(each.labels.items()))): each.value
                for each in now[name].samples
            }
            for each in earlier.families()[name].samples:
                key = each.name, tuple(sorted(each.labels.items()))
                assert known[key] >= each.value, key


def test_all_calls_are_counted_by_name_or_as_others(start_workload: StartWorkload) -> None:
    """How much of the time makes a name depends on how long the machine had it wait before."""
    count = 20_000
    workload = start_workload("calls", f"{known_syscall('getppid')}={count}")
    with watching(workload.pid) as watch:
        workload.ask()
        found = watch.scrape()

    missed = found.value("kernel_delay_losses_total", kind="missed_events")
    calls = sum(
        found.value("kernel_delay_syscalls_total", syscall=name) for name in ("getppid", "other")
    )
    # What else it makes, it makes once: it reads a line, and writes one.
    assert count - missed <= calls <= count + 10
    assert found.value("kernel_delay_syscall_seconds_total") > 0


def test_the_figures_are_there_when_the_process_is_gone(start_workload: StartWorkload) -> None:
    """Until the next one of its name comes."""
    workload = start_workload("crowd", 4, 0)
    with watching(workload.pid, "--follow") as watch:
        workload.ask()
        before = watch.scrape()
        workload.kill()
        wait_until(lambda: watch.scrape().value("kernel_delay_watching") == 0, "the end")
        after = watch.scrape()

    total = "kernel_delay_thread_seconds_total"
    assert after.value(total) >= before.value(total) > 0
    assert after.value("kernel_delay_threads") == 0


def test_otlp_receiver_gets_the_metrics_and_a_round_span(start_workload: StartWorkload) -> None:
    long_ns = 300 * NS_PER_MS
    workload = start_workload("poll_threads", 1, long_ns)
    with Receiver() as receiver:
        options = ("--otlp", receiver.url, "--threshold", "0.2", "--no-stacks", "--count", "1")
        with watching(workload.pid, *options) as watch:
            workload.ask()
            assert watch.process.wait(HANGS_S) == 0
        spans = receiver.spans()
        seconds = receiver.newest()["kernel_delay_thread_seconds"].sum.data_points

    (span,) = spans
    assert span.end_time_unix_nano - span.start_time_unix_nano >= 200 * NS_PER_MS
    assert attributes(span)["process.pid"] == workload.pid
    states = {attributes(point)["state"]: point.as_double for point in seconds}
    assert sum(states.values()) > 0


def test_an_address_that_others_reach_is_refused(start_workload: StartWorkload) -> None:
    workload = start_workload("crowd", 1, 0)
    command = [*KERNEL_DELAY, "watch", "--pid", str(workload.pid), "--metrics", "0.0.0.0:0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 64
    assert done.stderr.strip().count("\n") == 0
    assert "--metrics-token" in done.stderr
