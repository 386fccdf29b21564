"""Recordings that are the same each time: of many threads, and of many system calls."""

from pathlib import Path

from msgspec import structs

from kernel_delay.model import SyscallEvent
from tests.recordings import record_samples
from tests.unit.event_samples import STACKS
from tests.unit.samples import ACCOUNTED, POLLER, REVALIDATOR, bare_sample

_FIRST_TID = 31741
_START_NS = 2_161_821_694_935_486
_APART_NS = 60_000
_CALLS = ((202, "futex"), (1, "write"), (7, "poll"))


def record_threads(path: Path, count: int) -> Path:
    """Write a sample of so many threads: of four, one kept from its work, one busy, two idle."""
    kinds = (ACCOUNTED.threads[0], REVALIDATOR, POLLER, ACCOUNTED.threads[1])
    threads = tuple(
        structs.replace(kinds[at % len(kinds)], tid=_FIRST_TID + at, name=f"worker{at}")
        for at in range(count)
    )
    return record_samples(path, structs.replace(ACCOUNTED, threads=threads))


def record_events(path: Path, count: int) -> Path:
    """Write a sample of so many system calls, of three threads and with three stacks."""
    threads = tuple(structs.replace(POLLER, tid=_FIRST_TID + at) for at in range(len(_CALLS)))
    events = []
    for at in range(count):
        kind = at % len(_CALLS)
        number, name = _CALLS[kind]
        start_ns = _START_NS + at * _APART_NS
        stop_ns = start_ns + 1000 + at
        events.append(
            SyscallEvent(_FIRST_TID + kind, number, name, start_ns, stop_ns, 0, 0, 1 + kind % 2)
        )
    sample = bare_sample(*threads, syscall_events=tuple(events), stacks=STACKS)
    return record_samples(path, sample)
