"""Which threads are sampled: those whose open round may become a long one."""

from collections.abc import Collection
from contextlib import ExitStack
from typing import Self

from msgspec import Struct

from kernel_delay.capture.programs import Programs
from kernel_delay.capture.rounds.late_hooks import REST_NS
from kernel_delay.capture.rounds.threads import ThreadReading
from kernel_delay.loader.programs import Link

FREQUENCY = 199
"""Samples in a second on a CPU; no divisor of what ticks at round frequencies."""

SPLIT_FREQUENCY = 5 * FREQUENCY
"""The same where they show in which calls a thread is too: one in SAMPLES_OF_STACK has a stack."""

MOST_THREADS = 64


class _Profile(Struct):
    """One thread's: of its round that began at `round_ns`, from `start_ns` on."""

    round_ns: int
    start_ns: int
    link: Link


class Profiles:
    """Begins to sample threads, and ends it when their rounds are over."""

    def __init__(self, programs: Programs, suspect_ns: int) -> None:
        """Sample those whose round is open for that long."""
        self._programs = programs
        self._suspect_ns = suspect_ns
        self._frequency = SPLIT_FREQUENCY if programs.polls_only else FREQUENCY
        self._profiles: dict[int, _Profile] = {}
        self._ended: dict[int, _Profile] = {}
        self._until_ns: dict[int, int] = {}

    def __enter__(self) -> Self:
        """Nothing is sampled yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Sample no more."""
        self.close()

    def close(self) -> None:
        """Sample no more."""
        with ExitStack() as stack:
            for profile in self._profiles.values():
                stack.callback(profile.link.close)
            self._profiles.clear()

    def update(self, reading: ThreadReading, always: Collection[int] = ()) -> None:
        """Begin and end as the threads' rounds are; `always` are sampled whatever these are."""
        open_since = {
            reported.rounds.tid: reported.rounds.open_since_ns
            for reported in reading.threads.values()
            if reported.rounds.open_since_ns is not None
        }
        resting = [tid for tid, until_ns in self._until_ns.items() if until_ns > reading.time_ns]
        self._until_ns = {tid: self._until_ns[tid] for tid in resting}
        open_since |= dict.fromkeys([*resting, *always], 0)
        for tid, profile in list(self._profiles.items()):
            if open_since.get(tid) != profile.round_ns:
                profile.link.close()
                self._ended[tid] = self._profiles.pop(tid)
        for tid, since_ns in open_since.items():
            old = reading.time_ns - since_ns >= self._suspect_ns
            if old and tid not in self._profiles and len(self._profiles) < MOST_THREADS:
                self._begin(tid, since_ns, reading.time_ns)
        living = {reported.rounds.tid for reported in reading.threads.values()}
        for tid in list(self._ended):
            if tid not in living:
                del self._ended[tid]

    def _begin(self, tid: int, round_ns: int, now_ns: int) -> None:
        link = self._programs.profile(tid, self._frequency)
        if link is not None:
            self._profiles[tid] = _Profile(round_ns, now_ns, link)

    def keep(self, tid: int, now_ns: int) -> None:
        """Sample a thread for REST_NS, as a round of it was long: so may the next ones be."""
        self._until_ns[tid] = now_ns + REST_NS

    def began_ns(self, tid: int, round_ns: int, stop_ns: int) -> int | None:
        """Return since when that round of a thread was sampled; None if it was not."""
        for profiles in (self._profiles, self._ended):
            profile = profiles.get(tid)
            if profile is None or profile.start_ns >= stop_ns:
                continue
            if profile.round_ns in (0, round_ns):
                return max(profile.start_ns, round_ns)
        return None
