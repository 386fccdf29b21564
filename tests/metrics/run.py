"""python -m tests.metrics.run: do the metrics say what recordings of the same time say?

A private Open vSwitch under traffic is watched, scraped by a Prometheus, and recorded at the same
time; once its main thread is made to have a long round. Exits with 1 unless the sums are the same
within 1 %, the alert fires, a receiver of OTLP has the same, and there are no more series than
there may be.

To each tool that is attached the others' programs are a part of what it measures. At a call's
edges, for one, those that run before its own are to it of the time before that edge, and those
behind of the time after it; and they run in the order in which they were attached. So there are
two recordings, one from before the watch and one from after it: what each has too much of a state,
for that alone, the other has too little. The metrics are held against the middle of both.

A counter is known when it is scraped. What it was between two scrapes, at the ends of what was
recorded, is unsure; so is time that a tool could not give to a state, having missed an event.
Sums may be apart by that much more: in ten minutes it is less than 0.5 %.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from kernel_delay.metrics.ledger import STATES, ThreadClasses
from kernel_delay.model import Sample
from kernel_delay.recording.reader import open_recording
from lab.binaries import Binaries
from lab.traffic import Traffic
from tests.integration.capture.captures import Capture
from tests.integration.capture.test_watch_metrics import Watching, watching
from tests.integration.long_rounds import LongRounds, ovs_with_long_rounds
from tests.metrics.prometheus import SCRAPE_MS, Prometheus, prometheus
from tests.otlp_receiver import Receiver, attributes
from tests.workload import wait_until

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "deploy" / "prometheus" / "kernel-delay.rules.yml"
SAMPLE_S = 10
SETTLE_S = 5
MOST_SAMPLES = 1000
MOST_SERIES = 300
TOLERANCE = 0.01
LONG_MS = 1500

NS_PER_S = 1_000_000_000

# A state of a class that has less of its time is too little to be compared.
LEAST_SHARE = 0.01

# Of the states, time of which it is not known what it was.
MISSED = "unaccounted"

TIME = "kernel_delay_thread_seconds_total"
READ_TIME = "kernel_delay_last_read_timestamp_seconds"


class Recorded(NamedTuple):
    """In windows, in s since 1970: seconds by class and state, and calls."""

    windows: list[tuple[float, float]]
    seconds: Mapping[tuple[str, str], float]
    calls: int

    @property
    def length_s(self) -> float:
        return sum(stop - start for start, stop in self.windows)


class Grown(NamedTuple):
    """How much a counter grew; `unsure` is what it did in the scrapes' intervals at both ends."""

    by: float
    unsure: float


class Recording(NamedTuple):
    """A capture that runs, and where it writes."""

    capture: Capture
    path: Path

    def end(self) -> None:
        os.kill(self.capture.pid, signal.SIGINT)
        self.capture.samples()


class Checks:
    """What was found, line by line."""

    def __init__(self) -> None:
        self.failed = 0

    def say(self, is_right: bool, text: str) -> None:
        """Print a line of what was looked at."""
        self.failed += not is_right
        print(f"{'ok  ' if is_right else 'FAIL'} {text}", flush=True)


@contextmanager
def recording(pid: int, path: Path) -> Iterator[Recording]:
    """Record into a file from now on, until it is ended."""
    options = ("--sample-count", str(MOST_SAMPLES), "-o", os.fspath(path))
    capture = Capture(pid, str(SAMPLE_S), options)
    try:
        capture.wait_until_open()
        yield Recording(capture, path)
    finally:
        capture.kill()


def recorded(path: Path, pid: int, start_s: float, stop_s: float) -> Recorded:
    """What the windows between two times say, by the classes of the metrics."""
    classes = ThreadClasses(is_open_vswitch=True)
    seconds: Counter[tuple[str, str]] = Counter()
    calls = 0
    windows = []
    with open_recording(path) as reader:
        for sample in reader.read():
            if not isinstance(sample, Sample):
                continue
            begun = sample.window.start_time.timestamp()
            ended = begun + sample.window.duration_ns / NS_PER_S
            if begun < start_s or ended > stop_s:
                continue
            windows.append((begun, ended))
            for thread in sample.threads:
                name = classes.of(thread.name, is_main=thread.tid == pid)
                assert thread.time is not None
                for state, field in STATES.items():
                    seconds[name, state] += getattr(thread.time, field) / NS_PER_S
                calls += sum(call.count for call in thread.syscalls)
    return Recorded(windows, seconds, calls)


def grew(points: list[tuple[float, float]], windows: list[tuple[float, float]]) -> Grown:
    """How much a counter grew in windows, of its values at the times it was read."""

    def around(when: float) -> tuple[float, float, float]:
        if when <= points[0][0]:
            return 0.0, 0.0, 0.0  # It was not there yet: what is asked for begins before that.
        later = next(place for place, (time_, _) in enumerate(points) if time_ >= when)
        (before, low), (after, high) = points[later - 1], points[later]
        return low, low + (high - low) * (when - before) / (after - before), high

    sums = [around(stop)[1] - around(start)[1] for start, stop in windows]
    ends = [around(windows[0][0]), around(windows[-1][1])]
    return Grown(sum(sums), sum(high - low for low, _, high in ends))


def scraped(running: Prometheus, selector: str, over: Recorded) -> dict[tuple[str, ...], Grown]:
    """How much each series grew in that time, by its labels but for the target's."""
    range_s = int(time.time() - over.windows[0][0]) + 60
    (read,) = running.series(READ_TIME, range_s)
    found = {}
    for series in running.series(selector, range_s):
        points = sorted(
            (read.values[at], value) for at, value in series.values.items() if at in read.values
        )
        distinct = dict(points)
        labels = tuple(
            value
            for name, value in sorted(series.labels.items())
            if name not in ("__name__", "job", "instance")
        )
        found[labels] = grew(sorted(distinct.items()), over.windows)
    return found


def compare(checks: Checks, running: Prometheus, recordings: list[Recorded]) -> None:
    """Hold the sums against those of the recordings from before the watch and after it."""
    before, after = recordings
    grown = [scraped(running, TIME, over) for over in recordings]
    heads = ("before", "after", "middle", "unsure")
    print(f"     {'apart from the recording of':40} {' '.join(map('{:>8}'.format, heads))}")
    for name in sorted({name for name, _ in before.seconds}):
        whole = [_of_class(over.seconds, name) for over in recordings]
        # Sorted by the labels' names: state, thread_class.
        by_state = [
            {state: value for (state, of), value in each.items() if of == name} for each in grown
        ]
        sums = [_together(each.values()) for each in by_state]
        _hold(checks, f"{name:12} all", sums, [sum(each.values()) for each in whole])
        missed_s = max(
            ours[MISSED].by + theirs.get(MISSED, 0.0)
            for ours, theirs in zip(by_state, whole, strict=True)
        )
        for state in STATES:
            values = [each.get(state, 0.0) for each in whole]
            if state == MISSED or values[0] < LEAST_SHARE * sum(whole[0].values()):
                continue
            grew_by = [each[state] for each in by_state]
            _hold(checks, f"{name:12} {state}", grew_by, values, missed_s)
    calls = [
        _together(scraped(running, "kernel_delay_syscalls_total", over).values())
        for over in recordings
    ]
    _hold(checks, "calls", calls, [before.calls, after.calls])


def _of_class(seconds: Mapping[tuple[str, str], float], name: str) -> dict[str, float]:
    return {state: value for (of, state), value in seconds.items() if of == name}


def _together(grown: Iterable[Grown]) -> Grown:
    return Grown(*map(sum, zip(*grown, strict=True)))


def _hold(
    checks: Checks,
    what: str,
    metrics: Sequence[Grown],
    recordings: Sequence[float],
    missed: float = 0.0,
) -> None:
    parts = [ours.by / theirs - 1 for ours, theirs in zip(metrics, recordings, strict=True)]
    middle = sum(parts) / len(parts)
    unsure = max(
        (ours.unsure + missed) / theirs for ours, theirs in zip(metrics, recordings, strict=True)
    )
    shown = " ".join(f"{part:+8.2%}" for part in (*parts, middle))
    line = f"{what:25} {metrics[0].by:14.3f} {shown} {unsure:8.2%}"
    checks.say(abs(middle) <= TOLERANCE + unsure, line)


def check_otlp(checks: Checks, receiver: Receiver, watch: Watching) -> None:
    """What the receiver has is between what is scraped before and after."""
    before_s = watch.scrape().value(TIME)
    wait_until(lambda: _otlp_seconds(receiver) >= before_s, "a newer message by OTLP")
    sent_s = _otlp_seconds(receiver)
    after_s = watch.scrape().value(TIME)
    text = (
        f"OTLP: {sent_s:.1f} s of threads; scraped {before_s:.1f} s before, {after_s:.1f} s after"
    )
    checks.say(before_s <= sent_s <= after_s, text)
    lengths = [
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6 for span in receiver.spans()
    ]
    of_main = [attributes(span)["kernel_delay.cause"] for span in receiver.spans()]
    is_there = any(length >= LONG_MS for length in lengths)
    checks.say(is_there, f"OTLP: spans of {[f'{ms:.0f} ms' for ms in lengths]}, for {of_main}")


def _otlp_seconds(receiver: Receiver) -> float:
    points = receiver.newest()["kernel_delay_thread_seconds"].sum.data_points
    return float(sum(point.as_double for point in points))


def check_scrape(checks: Checks, running: Prometheus, watch: Watching) -> None:
    """Prometheus' own tool has nothing to say, and there are not too many series."""
    with urllib.request.urlopen(watch.url, timeout=30) as answer:
        text = answer.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    said = (done.stdout + done.stderr).decode().strip()
    checks.say(done.returncode == 0 and not said, f"promtool check metrics: {said or 'nothing'}")
    series = running.value('count({__name__=~"kernel_delay_.+"})')
    threads = running.value("sum(kernel_delay_threads)")
    checks.say(0 < series <= MOST_SERIES, f"{series:.0f} series of {threads:.0f} threads")
    missing = running.value("sum_over_time((1 - up)[1h:2s])")
    checks.say(missing == 0, f"{missing:.0f} scrapes failed")
    cost = running.value("rate(kernel_delay_own_cpu_seconds_total[5m])")
    print(f"     own cost: {cost:.2%} of a CPU, scraped each {SCRAPE_MS} ms")


def main() -> int:
    """Run it all; exit status 1 if anything is not as it is to be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="how long (%(default)s)")
    parser.add_argument("--rate", type=int, default=200, help="flows in a second (%(default)s)")
    options = parser.parse_args()
    checks = Checks()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        binaries = Binaries.under(Path(os.environ["KERNEL_DELAY_OVS"]))
        rounds = stack.enter_context(ovs_with_long_rounds(binaries, folder))
        lasts = options.seconds + 300
        stack.enter_context(Traffic(rounds.ovs, rate=options.rate, seconds=lasts))
        receiver = stack.enter_context(Receiver())
        first = stack.enter_context(recording(rounds.ovs.pid, folder / "before.kdr"))
        watch = stack.enter_context(
            watching(rounds.ovs.pid, "--otlp", receiver.url, "--min-gap", "0", "--no-stacks")
        )
        target = watch.url.removeprefix("http://").removesuffix("/metrics")
        running = stack.enter_context(prometheus(target, RULES, folder))
        time.sleep(SETTLE_S)
        last = stack.enter_context(recording(rounds.ovs.pid, folder / "after.kdr"))
        recordings = _record(checks, options.seconds, (first, last), rounds, running)
        print(f"     {recordings[-1].length_s:.1f} s were recorded and scraped")
        compare(checks, running, recordings)
        check_scrape(checks, running, watch)
        check_otlp(checks, receiver, watch)
    return 1 if checks.failed else 0


def _record(
    checks: Checks,
    seconds: int,
    captures: Sequence[Recording],
    rounds: LongRounds,
    running: Prometheus,
) -> list[Recorded]:
    """Wait for that long, with a long round in the middle of it, and see the alert."""
    start_s = time.time()
    time.sleep(seconds / 2)
    quiet = [alert for alert in running.firing() if alert["alertname"].endswith("LongRounds")]
    checks.say(not quiet, f"before the long round: {quiet or 'no alert of one'}")
    rounds.make("ovs-vswitchd", "sleep", LONG_MS)

    def is_reported() -> bool:
        alerts = [alert["alertname"] for alert in running.firing()]
        return "KernelDelayLongRounds" in alerts

    wait_until(is_reported, "the alert")
    (alert,) = (a for a in running.firing() if a["alertname"] == "KernelDelayLongRounds")
    checks.say(True, f"the alert fires, cause {alert['cause']!r}")
    time.sleep(max(0, start_s + seconds - time.time()))
    stop_s = time.time()
    for each in captures:
        each.end()
    time.sleep(SETTLE_S)
    return [recorded(each.path, rounds.ovs.pid, start_s, stop_s) for each in captures]


if __name__ == "__main__":
    sys.exit(main())
