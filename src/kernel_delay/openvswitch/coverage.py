"""What Open vSwitch and OVN counted between two answers: `coverage/show` and `stopwatch/show`.

Each thread adds its own counts to those that are shown when it polls, once a second at most
(lib/coverage.c:coverage_clear(), lib/timeval.c:time_poll(), Open vSwitch 2.17 to 4.0).
"""

import re
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import UnavailableError
from kernel_delay.model import Coverage, Sample, Stopwatch
from kernel_delay.openvswitch.losses import ANSWERS_WITHIN_S, COVERAGE
from kernel_delay.openvswitch.losses.answers import parse_counters
from kernel_delay.openvswitch.unixctl import Answers, Unixctl

STOPWATCHES = ("stopwatch/show",)
"""OVN's processes have it. Of others the answer is an error, and there are no stopwatches."""

COMMANDS = (STOPWATCHES, COVERAGE)
"""They are answered in this order: with the second the first is there too."""

_LOOK_S = 0.02

ASKS_EACH_S = 1.0
"""In a storm of long rounds a process is asked so rarely: counts are no newer before."""

MOST_COUNTERS = 200
"""Open vSwitch 4.0 has 130."""
MOST_STOPWATCHES = 100

MOST_NS = (1 << 63) - 1

# lib/stopwatch.c:stopwatch_print()
_NAME = re.compile(r"Statistics for '(.{1,64})'$")
_FIGURE = re.compile(
    r"  (Total samples|Maximum|Short term average): (\d{1,18})(\.\d+)?(?: (\w+))?$"
)
_UNITS_NS = MappingProxyType({"msec": 1_000_000, "usec": 1_000, "nsec": 1})


class _Times(Struct, frozen=True):
    """What a stopwatch shows: of all samples that it ever had."""

    samples: int
    longest_ns: int
    average_ns: int


def parse_stopwatches(text: str) -> Mapping[str, _Times]:
    """Return what each stopwatch shows, by its name."""
    figures: dict[str, dict[str, int]] = {}
    of: dict[str, int] = {}
    for line in text.splitlines():
        if name := _NAME.match(line):
            of = figures.setdefault(name[1], {})
        elif figure := _FIGURE.match(line):
            value = float(figure[2] + (figure[3] or "")) * _UNITS_NS.get(figure[4] or "", 1)
            of[figure[1]] = min(round(value), MOST_NS)
    return {
        name: _Times(each["Total samples"], each["Maximum"], each["Short term average"])
        for name, each in figures.items()
        if len(each) == len(_Times.__struct_fields__)
    }


def coverage_between(began: Answers, ended: Answers) -> Coverage:
    """Return what was counted from one answer to the next."""
    for answers in (ended, began):
        if COVERAGE not in answers.texts:
            return Coverage(unread=answers.problem or f"no answer within {ANSWERS_WITHIN_S:g} s")
    had, has = (parse_counters(answers.texts[COVERAGE]) for answers in (began, ended))
    moved = {name: total - had.get(name, 0) for name, total in has.items()}
    often = sorted(
        (name for name, count in moved.items() if count > 0), key=lambda name: -moved[name]
    )
    times = (parse_stopwatches(answers.texts.get(STOPWATCHES, "")) for answers in (began, ended))
    return Coverage(
        asked_ns=ended.asked_ns - began.asked_ns,
        counters={name: moved[name] for name in often[:MOST_COUNTERS]},
        stopwatches=_stopwatches(*times),
    )


def _stopwatches(
    before: Mapping[str, _Times], after: Mapping[str, _Times]
) -> tuple[Stopwatch, ...]:
    found = []
    for name, now in after.items():
        old = before.get(name, _Times(0, 0, 0))
        # stopwatch/reset begins anew.
        if now.samples > old.samples:
            longest_ns = now.longest_ns if now.longest_ns > old.longest_ns else None
            found.append(Stopwatch(name, now.samples - old.samples, now.average_ns, longest_ns))
    found.sort(key=lambda each: -(each.longest_ns or each.average_ns))
    return tuple(found[:MOST_STOPWATCHES])


class CoverageReader:
    """Asks a process what it counted since it was asked last."""

    def __init__(self, pid: int) -> None:
        """Connect and ask, without waiting for the answer; what can't be had is reported so."""
        self._unixctl: Unixctl | None = None
        self._began = Answers()
        self._asked_s = 0.0
        try:
            self._unixctl = Unixctl(pid)
        except UnavailableError as error:
            self._began = Answers(str(error))
            return
        self._began = self._unixctl.ask(COMMANDS)

    def close(self) -> None:
        """Disconnect."""
        if self._unixctl is not None:
            self._unixctl.close()

    def read(self, meanwhile: Callable[[], None] = lambda: None) -> Coverage:
        """Return what was counted since; `meanwhile` is called often while it waits."""
        if self._unixctl is None:
            return coverage_between(self._began, self._began)
        now = self._unixctl.ask(COMMANDS)
        self._asked_s = time.monotonic()
        until = self._asked_s + ANSWERS_WITHIN_S
        while now.problem is None and COVERAGE not in now.texts and time.monotonic() < until:
            meanwhile()
            self._unixctl.receive(_LOOK_S)
        found = coverage_between(self._began, now)
        # What was not answered in time is a part of the next time.
        if COVERAGE in now.texts or self._began.problem is not None:
            self._began = now
        return found

    def with_coverage(self, sample: Sample, meanwhile: Callable[[], None]) -> Sample:
        """Add it to the Sample of a long round, unless another one was just before.

        While a PMD thread is off its CPU it counts nothing.
        """
        is_early = time.monotonic() < self._asked_s + ASKS_EACH_S
        if sample.window.ended_by in ("switch", "iteration") or is_early:
            return sample
        return replace(sample, coverage=self.read(meanwhile))
