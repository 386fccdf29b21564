"""The options with which each program of each BPF object is loaded on some kernel."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from bench.cost.programs import OPTION_SETS, OptionSet, open_capture
from kernel_delay.capture.plan import EXEC, EventPlan, Plan, RoundPlan, TriggerPoints, WindowPlan
from kernel_delay.loader.objects import open_object
from kernel_delay.loader.programs import BpfObject
from kernel_delay.openvswitch._ovs_records import ffi
from kernel_delay.probes import KernelProbe, Tracepoint, UserProbe

CAPTURE = "capture"

# Of Open vSwitch: how much the programs copy at most.
_PACKET = {"packet_bytes": 128}
_KEY = {"key_bytes": 2048}

_SAMPLE_NS = 500_000_000
_IN_A_FILE = TriggerPoints("in a file", (UserProbe("/a", "a", 1),))
_IN_ANOTHER = TriggerPoints("in another file", (UserProbe("/b", "b", 1),))
# A place of each kind, as no program of another kind is loaded.
_ANYWHERE = TriggerPoints(
    "anywhere", (*_IN_A_FILE.points, KernelProbe("schedule"), Tracepoint("sched", "sched_stat", 1))
)
_ELSEWHERE = TriggerPoints(
    "elsewhere", (*_IN_ANOTHER.points, KernelProbe("do_exit"), Tracepoint("sched", "sched_wait", 2))
)


def _windows(start: TriggerPoints, stop: TriggerPoints | None = None) -> OptionSet:
    return OptionSet(Plan(WindowPlan(_SAMPLE_NS, start=start, stop=stop), EventPlan()))


def _rounds(start: TriggerPoints, stop: TriggerPoints) -> OptionSet:
    plan = _windows(start, stop).plan
    rounds = RoundPlan(threshold_ns=1_000_000_000, max_slices=1024)
    return OptionSet(Plan(plan.windows, plan.events, rounds=rounds))


CAPTURE_SETS = {
    **OPTION_SETS,
    "-s --stack-mode=auto": OptionSet(Plan(WindowPlan(_SAMPLE_NS), EventPlan(stack_mode="auto"))),
    "--start=exec": _windows(EXEC),
    "--start --stop": _windows(_ANYWHERE, _ELSEWHERE),
    "--start --stop, at one place": _windows(_ANYWHERE, _ANYWHERE),
    "watch --start --stop": _rounds(_IN_A_FILE, _IN_ANOTHER),
    "watch --start --stop, at one place": _rounds(_IN_A_FILE, _IN_A_FILE),
}


class ObjectSet(NamedTuple):
    """An object, and what opens it with the options of a command set."""

    name: str
    open: Callable[[], BpfObject]


def object_sets() -> Iterator[tuple[str, ObjectSet]]:
    """Yield all, by the command or its options; those of the capture's object first."""
    for name, options in CAPTURE_SETS.items():
        yield name, ObjectSet(CAPTURE, partial(open_capture, options))
    yield "in a PID namespace", _of("namespace")
    yield "where", _of("where")
    yield "capture of Open vSwitch", _of("upcall_statistics")
    yield "bridge-loop", _of_monitor("bridge_loop")
    yield "revalidator", _of_monitor("revalidator")
    yield "revalidator --slowest", _of_monitor("revalidator", time_checks=1)
    yield "flows", _of_monitor("flows", **_KEY, report_kept=1)
    yield "datapath-ops", _of_monitor("datapath_ops")
    yield "upcall-cost", _of_monitor("upcall", **_PACKET, **_KEY, report_sent=1)
    yield "upcall-monitor", _of_monitor("upcall", **_PACKET, **_KEY)


def _of(name: str) -> ObjectSet:
    return ObjectSet(name, partial(open_object, name))


def _of_monitor(name: str, **options: int) -> ObjectSet:
    return ObjectSet(name, partial(_open_monitor, name, options))


def _open_monitor(name: str, options: Mapping[str, int]) -> BpfObject:
    bpf_object = open_object(name)
    initial = bpf_object.map(".rodata.options").initial_values()
    constants = ffi.cast("struct ovs_options *", initial)
    for option, value in {"tgid": os.getpid(), **options}.items():
        setattr(constants, option, value)
    return bpf_object
