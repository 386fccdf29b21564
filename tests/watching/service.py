"""python -m tests.watching.service: does a node's tool hold for hours?

An Open vSwitch under traffic is watched as by the service, with chains, timelines, recordings and
metrics. Meanwhile its main thread has long rounds, processes come and go, and an operator runs
other commands. The watch may not grow, each long round has its record, no counter falls, each
capture adds up to the nanosecond, and no command fails. Exits with 1 where one does.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import msgspec
from msgspec.structs import astuple
from prometheus_client.parser import text_string_to_metric_families

from kernel_delay.model import Sample
from lab.binaries import Binaries
from lab.traffic import Traffic
from tests import commands, ovs_with_usdt
from tests.integration.long_rounds import MAIN, LongRounds, ovs_with_long_rounds
from tests.watching import growth
from tests.watching.watch import Watching, samples_in, watch_of

PERIOD_S = 20.0
THRESHOLD_S = 0.4
LONG_MS = 600
KINDS = ("kernel", "write", "lock")
MOST_FILES = 50
RATE = 100
LAST_LINES = 20
# After the service has warmed up: its tables of names, and Python's allocator.
WARM_S = 600.0

# Processes that come and go beside it, some thousands a minute.
COMES_AND_GOES = "while :; do for i in 1 2 3 4 5; do true | true; done; sleep 0.1; done"

OPERATOR = (
    ("capture", "--sample-time", "2", "--json"),
    ("capture", "--sample-time", "2", "-s", "--chains", "--json"),
    ("where", "--json"),
    ("capture", "--sample-time", "1", "--sample-count", "3", "--timeline", "--json"),
    ("check",),
    ("revalidator", "--time", "3", "--json"),
    ("flows", "--time", "3", "--rules", "--json"),
    ("bridge-loop", "--time", "3", "-q"),
)


class Service:
    """The watch, what it is asked, and what is wrong by now."""

    def __init__(self, watching: Watching, rounds: LongRounds) -> None:
        """It watches the process that has these."""
        found = re.search(r"http://\S+?/metrics", watching.said())
        assert found is not None, watching.said()
        self._url = found[0]
        self._watching = watching
        self._rounds = rounds
        self._counters: dict[str, float] = {}
        self.readings: list[growth.Reading] = []
        self.problems: list[str] = []
        self.ran = Counter[str]()
        self.long_rounds = self.sums = 0

    def make_long_round(self) -> None:
        """Have the main thread be long in a round."""
        self._rounds.make(MAIN, KINDS[self.long_rounds % len(KINDS)], LONG_MS)
        self.long_rounds += 1

    def scrape(self) -> None:
        """Read its metrics: what counts never falls."""
        with urllib.request.urlopen(self._url, timeout=60) as answer:
            text = answer.read().decode()
        counters = {
            f"{sample.name}{sorted(sample.labels.items())}": sample.value
            for family in text_string_to_metric_families(text)
            if family.type == "counter"
            for sample in family.samples
            if sample.name.endswith("_total")
        }
        self.problems += [
            f"{name} fell from {before:g} to {counters[name]:g}"
            for name, before in self._counters.items()
            if counters.get(name, before) < before
        ]
        self._counters = counters

    def read(self, time_s: float) -> None:
        """Note what it has by now."""
        self.readings.append(growth.read(self._watching.process.pid, time_s))

    def operate(self, command: tuple[str, ...]) -> None:
        """Run a command beside it."""
        done = commands.run(command[0], "--pid", self._rounds.ovs.pid, *command[1:])
        self.ran[command[0]] += 1
        if done.returncode != os.EX_OK or "Traceback" in done.stderr:
            self.problems.append(f"{command[0]}: {done.returncode}: {done.stderr[-300:]}")
        elif command[0] == "capture":
            for line in done.stdout.splitlines():
                self._add_up(msgspec.json.decode(line, type=Sample))

    def _add_up(self, sample: Sample) -> None:
        """The parts of each thread's time are the window; of several threads, so many of it."""
        for thread in sample.threads:
            if thread.time is None:
                continue
            self.sums += 1
            window_ns = sample.window.duration_ns * thread.threads
            if sum(astuple(thread.time)) != window_ns:
                self.problems.append(f"{thread.name}: {thread.time} of {window_ns} ns")


def main() -> int:
    """Run it, print the readings; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--hours", type=float, default=6.0, metavar="N")
    seconds = parser.parse_args().hours * 3600
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        root = os.environ.get("KERNEL_DELAY_USDT_OVS") or ovs_with_usdt.build()
        binaries = Binaries.under(Path(root))
        rounds = stack.enter_context(ovs_with_long_rounds(binaries, Path(name)))
        stack.enter_context(Traffic(rounds.ovs, rate=RATE, seconds=seconds + 600))
        coming = subprocess.Popen(["sh", "-c", COMES_AND_GOES], start_new_session=True)
        stack.callback(coming.wait)
        stack.callback(os.killpg, coming.pid, signal.SIGKILL)
        options = ("--threshold", str(THRESHOLD_S), "--timeline", "--chains", "--metrics", "0")
        folder = Path(name) / "records"
        watching = stack.enter_context(
            watch_of(rounds.ovs.pid, folder, *options, "--max-files", str(MOST_FILES))
        )
        service = Service(watching, rounds)
        _run(service, seconds)
        printed = watching.end()
        service.problems += growth.problems(service.readings, min(WARM_S, seconds / 10))
        service.problems += _recorded(service, watching, printed)
    for line in _summary(service):
        print(line)
    return int(bool(service.problems))


def _run(service: Service, seconds: float) -> None:
    began = time.monotonic()
    for command in cycle(OPERATOR):
        at = time.monotonic() - began
        if at > seconds:
            return
        service.make_long_round()
        service.operate(command)
        service.scrape()
        service.read(at)
        print(
            f"{growth.reading_text(service.readings[-1])}  {service.long_rounds} long"
            f" rounds, {len(service.problems)} problems",
            flush=True,
        )
        time.sleep(max(0.0, at + PERIOD_S - (time.monotonic() - began)))


def _recorded(service: Service, watching: Watching, printed: str) -> Iterator[str]:
    """What is wrong with its lines and recordings."""
    records = len(re.findall(r"^\d{4}-\d\d-\d\d ", printed, flags=re.MULTILINE))
    print("\n".join(printed.splitlines()[-LAST_LINES:]))
    print(f"{records} records; {service.long_rounds} long rounds were made")
    if records < service.long_rounds:
        yield f"{service.long_rounds} long rounds have {records} records"
    files = watching.recordings()
    if not 0 < len(files) <= MOST_FILES + 1:
        yield f"there are {len(files)} files"
    for file in files:
        if not samples_in(file):
            yield f"{file.name} has no sample"
    if "Traceback" in watching.said() or "no room" in watching.said():
        yield watching.said()[-500:]


def _summary(service: Service) -> Iterator[str]:
    first, last = service.readings[len(service.readings) // 10], service.readings[-1]
    yield f"at first {growth.reading_text(first)}"
    yield f"at last  {growth.reading_text(last)}"
    yield "commands: " + ", ".join(f"{name} {count}" for name, count in service.ran.items())
    yield f"{service.sums:,} threads' times added up"
    yield from (f"WRONG: {problem}" for problem in service.problems)


if __name__ == "__main__":
    sys.exit(main())
