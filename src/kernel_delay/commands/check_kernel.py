"""What the kernel offers: asked of the kernel itself, by trying."""

import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kernel_delay.analysis.missed import COSTS
from kernel_delay.capture.plan import Plan, WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.commands.check_findings import CheckFinding
from kernel_delay.errors import KernelDelayError, PermissionDeniedError
from kernel_delay.host.preflight import BTF, NEWER, lacking_of_bpf, why_refused
from kernel_delay.host.tracefs import tracefs
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import (
    KernelFeatures,
    MapType,
    has_map_type,
    read_kernel_features,
)
from kernel_delay.loader.objects import load_object, open_object, refusal
from kernel_delay.model import Unseen
from kernel_delay.probes.kernel import find_tracepoint

EVENT_SOURCES = Path("/sys/bus/event_source/devices")

NOTHING = "nothing can be measured"

# bpf_task_pt_regs(): commit dd6e10fbd9fb.
REGISTERS = "use a kernel of 5.15 or later"

OPTIONAL_PARTS: Mapping[Unseen, str] = MappingProxyType(
    {
        # Programs at kernel functions: on arm64 since commit efc9909fdce0 (6.4).
        "page_faults": "use a kernel with CONFIG_FUNCTION_TRACER=y, on arm64 from 6.4 on",
        # Task iterators that sleep, and bpf_copy_from_user_task(): commit 376040e47334.
        "futex_owners": "use a kernel of 5.18 or later",
        "earlier_calls": REGISTERS,
        "files_of_sleeps": REGISTERS,
    }
)
"""What each capture asks for, and how to get it where the kernel refuses it."""


class Feature(NamedTuple):
    """What some captures ask for, and other commands.

    Attributes:
        name: What `check` calls it.
        has: Whether a kernel with these features has it.
        lacks: What the kernel has not, if not.
        cost: What the user can't do then.
        remedy: How to get it.
    """

    name: str
    has: Callable[[KernelFeatures], bool]
    lacks: str
    cost: str
    remedy: str


_has_registers = operator.attrgetter("knows_earlier_calls")

FEATURES = (
    Feature(
        "stacks of wakers",
        _has_registers,
        "bpf_task_pt_regs()",
        f"with `--wakers stacks` {COSTS['stacks_of_wakers']}",
        REGISTERS,
    ),
    Feature(
        "samples",
        _has_registers,
        "bpf_task_pt_regs()",
        f"in records of `watch`, {COSTS['samples']}",
        REGISTERS,
    ),
    Feature(
        "user stacks",
        _has_registers,
        "bpf_task_pt_regs()",
        "`where` shows the functions of the kernel and of Python alone",
        REGISTERS,
    ),
    Feature(
        "long waits",
        operator.attrgetter("loops"),
        "bpf_loop()",
        "who had the CPU is known of the newest 64 switches in a wait for it, not of 512",
        "use a kernel of 5.17 or later",
    ),
)


def kernel_findings(machine: tuple[CheckFinding, ...]) -> tuple[CheckFinding, ...]:
    """Try each feature, unless what was found of the user and the `machine` forbids that.

    Where BPF or perf events are refused altogether, their features are unknown.
    """
    missing = {finding.name: finding for finding in machine if finding.state == "no"}
    needed = (_btf(), *_bpf(missing.get("capabilities") or missing.get("user namespace")))
    return (*needed, *_programs(needed), *_places(has_perf_events="perf events" not in missing))


def _places(*, has_perf_events: bool) -> Iterator[CheckFinding]:
    """Where triggers can be, each of which takes a perf event."""
    found = (
        _tracepoints(),
        _event_source(
            "kprobes",
            "kprobe/type",
            "kernel functions can't be triggers",
            "use tracepoints as triggers, or a kernel with CONFIG_KPROBE_EVENTS=y",
        ),
        _event_source(
            "uprobes",
            "uprobe/type",
            "functions of the process can't be triggers",
            "use tracepoints as triggers, or a kernel with CONFIG_UPROBE_EVENTS=y",
        ),
        # A probe with a semaphore fires only while the kernel holds it up (Linux 4.20).
        _event_source(
            "USDT",
            "uprobe/format/ref_ctr_offset",
            "USDT probes that have a semaphore can't be triggers",
            "use a kernel with CONFIG_UPROBE_EVENTS=y",
        ),
    )
    for finding in found:
        if has_perf_events or finding.state == "no":
            yield finding
        else:
            yield CheckFinding(finding.name, "unknown", "it takes perf events to try it")


def _btf() -> CheckFinding:
    if BTF.exists():
        return CheckFinding("BTF", "yes", str(BTF), needed=True)
    return CheckFinding(
        "BTF",
        "no",
        f"{BTF} is not there",
        needed=True,
        cost=f"the programs can't find the kernel's fields: {NOTHING}",
        remedy="use a kernel built with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
    )


def _bpf(lacking: CheckFinding | None) -> tuple[CheckFinding, ...]:
    """Whether BPF is allowed at all, an array being the least that can be asked for; its parts.

    `lacking`: which of the user's rights for BPF is missing.
    """
    if lacking is None and has_map_type("ARRAY"):
        return (
            CheckFinding("BPF", "yes", needed=True),
            _tracing_programs(),
            _map_type("task storage", "TASK_STORAGE"),
            _map_type("ring buffer", "RINGBUF"),
        )
    too_few = "the user's rights do not suffice"
    why, remedy = why_refused() if lacking is None else (too_few, lacking.remedy)
    return (
        CheckFinding("BPF", "no", why, needed=True, cost=NOTHING, remedy=remedy),
        *(
            CheckFinding(name, "unknown", "it takes BPF to try it")
            for name in ("tp_btf", "task storage", "ring buffer")
        ),
    )


def _tracing_programs() -> CheckFinding:
    """Load a small program of that type: libbpf's own probe (1.1) fails on Linux 6.18."""
    if not BTF.exists():
        return CheckFinding("tp_btf", "unknown", "it takes BTF to try it")
    try:
        with open_object("namespace") as bpf_object:
            load_object(bpf_object)
    except KernelDelayError as error:
        return _lacks("tp_btf") if lacking_of_bpf() else _refused("tp_btf", error)
    return CheckFinding("tp_btf", "yes", needed=True)


def _map_type(name: str, map_type: MapType) -> CheckFinding:
    try:
        is_there = has_map_type(map_type)
    except BpfError as error:
        return _refused(name, refusal(error))
    return CheckFinding(name, "yes", needed=True) if is_there else _lacks(name)


def _lacks(name: str) -> CheckFinding:
    return CheckFinding(name, "no", "the kernel lacks it", needed=True, cost=NOTHING, remedy=NEWER)


def _refused(name: str, error: KernelDelayError) -> CheckFinding:
    """What a capture needs and does not get, in the words of its error."""
    return CheckFinding(name, "no", error.what, needed=True, cost=NOTHING, remedy=error.remedy)


def _programs(needed: tuple[CheckFinding, ...]) -> tuple[CheckFinding, ...]:
    """Load the programs and attach them to this very process: what a capture does."""
    if BTF.exists() and (lacking := lacking_of_bpf()):
        detail = f"this kernel's BPF has no {' and no '.join(lacking)}"
        refused = CheckFinding("programs", "no", detail, needed=True, cost=NOTHING, remedy=NEWER)
        return (refused, *_optional_parts(None))
    if missing := [finding.name for finding in needed if finding.state == "no"]:
        detail = f"it takes {' and '.join(missing)} to try them"
        return (CheckFinding("programs", "unknown", detail), *_optional_parts(None))
    try:
        with Programs((os.getpid(),), Plan(WindowPlan(sample_time_ns=1))) as programs:
            return (
                CheckFinding("programs", "yes", "they load and attach", needed=True),
                *_optional_parts(programs.unseen),
            )
    except KernelDelayError as error:
        return (_refused("programs", error), *_optional_parts(None))


def _optional_parts(unseen: Mapping[Unseen, KernelDelayError] | None) -> Iterator[CheckFinding]:
    """What a capture does without where the kernel refuses it; None: that is not known."""
    for part, remedy in OPTIONAL_PARTS.items():
        name = part.replace("_", " ")
        if unseen is None:
            yield CheckFinding(name, "unknown", "it takes the programs to try it")
        elif part in unseen:
            error = unseen[part]
            # Another kernel is no remedy where this one could.
            own = error.remedy if isinstance(error, PermissionDeniedError) else remedy
            yield CheckFinding(name, "no", error.what, cost=COSTS[part], remedy=own)
        else:
            yield CheckFinding(name, "yes")
    yield from _features(are_known=unseen is not None)


def _features(are_known: bool) -> Iterator[CheckFinding]:
    features = None
    if are_known:
        with suppress(BpfError):
            features = read_kernel_features()
    for each in FEATURES:
        if features is None:
            yield CheckFinding(each.name, "unknown", "it takes the programs to try it")
        elif each.has(features):
            yield CheckFinding(each.name, "yes")
        else:
            detail = f"the kernel has no helper {each.lacks}"
            yield CheckFinding(each.name, "no", detail, cost=each.cost, remedy=each.remedy)


def _tracepoints() -> CheckFinding:
    try:
        with tracefs() as folder:
            find_tracepoint(folder, "sched", "sched_switch")
    except KernelDelayError as error:
        return CheckFinding(
            "tracepoints",
            "no",
            str(error),
            cost="tracepoints can't be triggers",
            remedy="run as root, on a kernel with CONFIG_FTRACE=y",
        )
    return CheckFinding("tracepoints", "yes")


def _event_source(name: str, file: str, cost: str, remedy: str) -> CheckFinding:
    path = EVENT_SOURCES / file
    if path.exists():
        return CheckFinding(name, "yes")
    return CheckFinding(name, "no", f"{path} is not there", cost=cost, remedy=remedy)
