"""What the kernel offers: asked of the kernel itself, by trying."""

import os
from pathlib import Path

from kernel_delay.capture.plan import WindowPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.errors import KernelDelayError
from kernel_delay.host.preflight import BTF, why_refused
from kernel_delay.host.tracefs import tracefs
from kernel_delay.inspection.findings import Finding
from kernel_delay.inspection.machine import AS_ROOT
from kernel_delay.libbpf import BpfError, has_map_type, start_log
from kernel_delay.loader.objects import open_object
from kernel_delay.probes.tracepoints import find_tracepoint

EVENT_SOURCES = Path("/sys/bus/event_source/devices")

NOTHING = "nothing can be measured"
NEWER = "use a kernel of 5.14 or later (RHEL 9, Debian 12 and later have it)"


def kernel_findings(*, has_rights: bool) -> tuple[Finding, ...]:
    """Try each feature; where BPF is refused altogether its features are unknown.

    `has_rights`: whether this user has all the rights for BPF that are known.
    """
    start_log(-1)
    bpf = _bpf(has_rights)
    return (
        _btf(),
        bpf,
        *_bpf_features(bpf.state == "yes"),
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


def _btf() -> Finding:
    if BTF.exists():
        return Finding("BTF", "yes", str(BTF), needed=True)
    return Finding(
        "BTF",
        "no",
        f"{BTF} is not there",
        needed=True,
        cost=f"the programs can't find the kernel's fields: {NOTHING}",
        remedy="use a kernel built with CONFIG_DEBUG_INFO_BTF=y, and mount /sys",
    )


def _bpf(has_rights: bool) -> Finding:
    """Whether BPF is allowed at all: an array is the least that can be asked for."""
    if has_rights and has_map_type("ARRAY"):
        return Finding("BPF", "yes", needed=True)
    detail = why_refused() if has_rights else "this user's rights do not suffice, see above"
    return Finding("BPF", "no", detail, needed=True, cost=NOTHING, remedy=AS_ROOT)


def _bpf_features(allowed: bool) -> tuple[Finding, ...]:
    if not allowed:
        return tuple(
            Finding(name, "unknown", "it takes BPF to try it")
            for name in ("tp_btf", "task storage", "ring buffer", "programs")
        )
    return (
        _bpf_feature("tp_btf", _can_load_tracing_programs()),
        _bpf_feature("task storage", has_map_type("TASK_STORAGE")),
        _bpf_feature("ring buffer", has_map_type("RINGBUF")),
        _programs(),
    )


def _bpf_feature(name: str, is_there: bool) -> Finding:
    if is_there:
        return Finding(name, "yes", needed=True)
    return Finding(name, "no", "the kernel lacks it", needed=True, cost=NOTHING, remedy=NEWER)


def _can_load_tracing_programs() -> bool:
    """Load a small program of that type: libbpf's own probe (1.1) fails on Linux 6.18."""
    with open_object("namespace") as bpf_object:
        try:
            bpf_object.load()
        except BpfError:
            return False
    return True


def _programs() -> Finding:
    """Load the programs and attach them to this very process: what a capture does."""
    try:
        with Programs(os.getpid(), WindowPlan(sample_time_ns=1), events=None):
            return Finding("programs", "yes", "they load and attach", needed=True)
    except KernelDelayError as error:
        remedy = "get what else is missing; if nothing is, report it, with what --debug 2 prints"
        return Finding("programs", "no", str(error), needed=True, cost=NOTHING, remedy=remedy)


def _tracepoints() -> Finding:
    try:
        with tracefs() as folder:
            find_tracepoint(folder, "sched", "sched_switch")
    except KernelDelayError as error:
        return Finding(
            "tracepoints",
            "no",
            str(error),
            cost="tracepoints can't be triggers",
            remedy="run as root, on a kernel with CONFIG_FTRACE=y",
        )
    return Finding("tracepoints", "yes")


def _event_source(name: str, file: str, cost: str, remedy: str) -> Finding:
    path = EVENT_SOURCES / file
    if path.exists():
        return Finding(name, "yes")
    return Finding(name, "no", f"{path} is not there", cost=cost, remedy=remedy)
