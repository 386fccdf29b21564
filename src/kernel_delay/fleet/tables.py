"""Samples of many nodes as rows: what tables they make up, and what is in these.

docs/reference/fleet-tables.md describes them. They gain columns. One that changes or goes
away takes another SCHEMA.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Literal, get_args

from msgspec.structs import replace

from kernel_delay.analysis.figures import class_of
from kernel_delay.analysis.rounds import cause_name, main_cause
from kernel_delay.analysis.states import lost_ns
from kernel_delay.model import (
    Finding,
    RecordedTarget,
    RecordingHeader,
    Sample,
    Thread,
    ThreadTime,
)
from kernel_delay.recording import tables
from kernel_delay.recording.tables import Columns, Row, same

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SCHEMA = "kernel-delay-parquet/2"
"""The form of the tables, in each file's metadata by the name of SCHEMA_KEY."""

SCHEMA_KEY = "kernel_delay.schema"

FleetTable = Literal["samples", "threads", "syscalls", "rounds", "findings"]
FLEET_TABLES: tuple[FleetTable, ...] = get_args(FleetTable)

FleetKind = tables.Kind | Literal["share", "counts"]
"""What is in a column; "share" is a part of 1, and "counts" are integers by name."""

PARTITIONS = ("day", "node")
"""What distinguishes folders: the day in UTC on which a window began, and the node by uname(2)."""

_KEYS: dict[str, FleetKind] = {
    "recording": "str",
    "sample": "int",
    "unix_ns": "int",
    "start_time": "time",
    "duration_ns": "int",
    "command": "str",
    "pid": "int",
    "comm": "str",
    "pod": "str",
    "container": "str",
}

_THREAD: dict[str, FleetKind] = {"tid": "int", "name": "str", "thread_class": "str"}

_TIMES: dict[str, FleetKind] = dict.fromkeys(ThreadTime.__struct_fields__, "int")

COLUMNS: Mapping[FleetTable, Mapping[str, FleetKind]] = MappingProxyType(
    {
        "samples": {
            **_KEYS,
            "start_ns": "int",
            "ended_by": "str",
            "tool": "str",
            "kernel": "str",
            "machine": "str",
            "cpus": "int",
            "boot_id": "str",
            "exe": "str",
            "cgroup": "str",
            "runtime": "str",
            "threads": "int",
            "cpu_idle_ns": "int",
            "cpu_steal_ns": "int",
            "quota_ns": "int",
            "period_ns": "int",
            "throttled_periods": "int",
            "upcalls": "int",
            "failed_upcalls": "int",
            "lost": "counts",
        },
        "threads": {
            **_KEYS,
            **_THREAD,
            **tables.COLUMNS["threads"],
            "kernel_worker": "bool",
            "lost_ns": "int",
            "lock_ns": "int",
            "own_soft_irq_ns": "int",
            "cpu_taker": "str",
            "cpu_taker_ns": "int",
            "policy": "str",
            "nice": "int",
            "rt_priority": "int",
        },
        "syscalls": {
            **_KEYS,
            **_THREAD,
            "call": "str",
            **{
                column: kind
                for column, kind in tables.COLUMNS["syscalls"].items()
                if column not in ("thread", "name")
            },
        },
        "rounds": {
            **_KEYS,
            **_THREAD,
            "number": "int",
            "suppressed": "int",
            "cause": "str",
            "why": "str",
            "logged_ms": "int",
            **_TIMES,
        },
        "findings": {
            **_KEYS,
            **_THREAD,
            "rule": "str",
            "who": "str",
            "remark": "bool",
            "share": "share",
            "lost_ns": "int",
            "text": "str",
            "advice": "str",
            "evidence": "counts",
        },
    }
)
"""The columns of each table, without PARTITIONS, which are in no file."""


def columns(table: FleetTable) -> dict[str, FleetKind]:
    """The columns of a table with PARTITIONS, as one who reads it has them."""
    of_folders: dict[str, FleetKind] = dict.fromkeys(PARTITIONS, "str")
    return {**COLUMNS[table], **of_folders}


def recording_id(header: RecordingHeader) -> str:
    """What identifies a recording: the boot, when it was begun, and the process."""
    return f"{header.boot_id or header.host}-{header.clock.realtime_ns}-{header.target.pid}"


def columns_of(
    header: RecordingHeader, number: int, sample: Sample
) -> Iterator[tuple[FleetTable, Columns]]:
    """Yield the columns of a recording's Sample, which is judged, and what table each is of.

    Args:
        header: The recording's.
        number: The Sample's, from 0 on.
        sample: The Sample.
    """
    keys = _keys(header, number, sample)
    yield "samples", same({**keys, **_sample(header, sample)}, 1)
    for threads in tables.in_parts(sample.threads):
        own = tables.thread_columns(number, sample, threads)
        yield "threads", {**own, **same(keys, len(threads)), **_threads(threads)}
    for calls in tables.in_parts(tables.calls_of(sample)):
        own = tables.call_columns(number, calls)
        yield (
            "syscalls",
            {
                **own,
                **same(keys, len(calls)),
                "name": own["thread"],
                "thread_class": [*map(class_of, own["thread"])],
                "call": own["name"],
            },
        )
    if sample.round is not None:
        yield "rounds", same({**keys, **_round(sample)}, 1)
    names = {thread.tid: thread.name for thread in sample.threads}
    for finding in sample.verdict:
        yield "findings", same({**keys, **_finding(finding, names.get(finding.tid, ""))}, 1)


def _target(header: RecordingHeader, sample: Sample) -> RecordedTarget:
    """The process that a Sample is of, with what is known of it.

    Of several the header has those that were asked for, by the names that they had then; a child
    is in its Samples alone.
    """
    own = sample.target
    for known in (header.target, *header.others):
        if known.pid == own.pid:
            return replace(known, comm=own.comm, exe=own.exe)
    return RecordedTarget(own.pid, own.comm, own.exe, container=own.container)


def _keys(header: RecordingHeader, number: int, sample: Sample) -> Row:
    target, window = _target(header, sample), sample.window
    since = window.start_time - EPOCH
    return {
        "recording": recording_id(header),
        "sample": number,
        "unix_ns": since // timedelta(microseconds=1) * 1000,
        "start_time": window.start_time,
        "duration_ns": window.duration_ns,
        "command": header.command,
        "pid": target.pid,
        "comm": target.comm,
        "pod": target.container.pod if target.container else None,
        "container": target.container.id if target.container else None,
    }


def _names(tid: int, name: str) -> Row:
    return {"tid": tid, "name": name, "thread_class": class_of(name)}


def _sample(header: RecordingHeader, sample: Sample) -> Row:
    target, around = _target(header, sample), sample.system_state
    cgroup = around.cgroup if around else None
    cpus, is_late = (around.cpus, around.is_late) if around else ((), True)
    lost = sample.lost
    upcalls = sample.upcalls
    return {
        "start_ns": sample.window.start_ns,
        "ended_by": sample.window.ended_by,
        "tool": header.tool,
        "kernel": header.kernel,
        "machine": header.machine,
        "cpus": header.cpus,
        "boot_id": header.boot_id,
        "exe": target.exe,
        "cgroup": target.cgroup,
        "runtime": target.container.runtime if target.container else None,
        "threads": sum(thread.threads for thread in sample.threads),
        "cpu_idle_ns": sum(cpu.idle_ns for cpu in cpus) if cpus else None,
        "cpu_steal_ns": sum(cpu.steal_ns for cpu in cpus) if cpus else None,
        "quota_ns": cgroup.quota_ns if cgroup else None,
        "period_ns": cgroup.period_ns if cgroup else None,
        "throttled_periods": cgroup.throttled_periods if cgroup and not is_late else None,
        "upcalls": None if upcalls is None else sum(u.count for u in upcalls),
        "failed_upcalls": None if upcalls is None else sum(u.count for u in upcalls if u.error),
        "lost": lost.counts(),
    }


def _threads(threads: Sequence[Thread]) -> Columns:
    """What the table of many nodes has of threads besides."""
    takers = [thread.cpu_taken_by[0] if thread.cpu_taken_by else None for thread in threads]
    ways = [thread.scheduling for thread in threads]
    return {
        "thread_class": [class_of(thread.name) for thread in threads],
        "kernel_worker": [thread.kernel_worker for thread in threads],
        "lost_ns": [*map(lost_ns, threads)],
        "lock_ns": [
            sum([wait.ns for wait in thread.lock_waits], thread.lock_waits_others_ns)
            for thread in threads
        ],
        "own_soft_irq_ns": [thread.own_soft_irq_ns for thread in threads],
        "cpu_taker": [taker.comm if taker else None for taker in takers],
        "cpu_taker_ns": [taker.ns if taker else None for taker in takers],
        "policy": [way.policy if way else None for way in ways],
        "nice": [way.nice if way else None for way in ways],
        "rt_priority": [way.rt_priority if way else None for way in ways],
    }


def _round(sample: Sample) -> Row:
    round_ = sample.round
    assert round_ is not None
    time = sample.threads[0].time
    return {
        **_names(round_.tid, round_.name),
        "number": round_.number,
        "suppressed": round_.suppressed,
        "cause": cause_name(sample),
        "why": main_cause(sample),
        "logged_ms": round_.log.length_ms if round_.log else None,
        **{name: getattr(time, name) if time else None for name in _TIMES},
    }


def _finding(finding: Finding, name: str) -> Row:
    return {
        **_names(finding.tid, name),
        "rule": finding.rule,
        "who": finding.who,
        "remark": finding.remark,
        "share": finding.share,
        "lost_ns": finding.evidence.get("lost_ns"),
        "text": finding.text,
        "advice": finding.advice,
        "evidence": dict(finding.evidence),
    }
