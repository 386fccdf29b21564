"""What becomes of flows, as flows.bpf.c sees it."""

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.formatting import NS_PER_MS
from kernel_delay.monitors.flows.events import FlowChange, FlowEvent, reason_names
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.detrace import Flow, RuledEvents, connect, take_ruled, with_newer
from kernel_delay.openvswitch.flow_key.text import ufid_text
from kernel_delay.openvswitch.functions import without_probes
from kernel_delay.openvswitch.installed import find_version, has_kernel_datapath
from kernel_delay.openvswitch.probes import FLOW_RESULTS, files_with
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, room, text
from kernel_delay.probes.objects import process_objects
from kernel_delay.probes.triggers import UsdtTrigger

if TYPE_CHECKING:
    from kernel_delay.openvswitch._ovs_records import FlowEventPointer


PROBES: Mapping[str, UsdtTrigger] = MappingProxyType(
    {
        "on_flow_result": FLOW_RESULTS[0],
        "on_flow_sweep_result": FLOW_RESULTS[1],
    }
)

CHANGES: Mapping[int, FlowChange] = MappingProxyType(
    {lib.UKEY_KEEP: "keep", lib.UKEY_DELETE: "delete", lib.UKEY_MODIFY: "modify"}
)


class FlowPlan(Struct, frozen=True):
    """Which events of flows are wanted.

    At most `key_bytes` are captured of each flow's key, and of its mask; `ring_bytes` is the size
    of the buffer that events come through. With `kept` each result that a flow is kept is an event,
    and with `rules` made and modified flows have their OpenFlow rules.
    """

    key_bytes: int
    ring_bytes: int
    kept: bool
    rules: bool = False


class FlowProbes(Probes):
    """Follows a process's flows."""

    def __init__(self, pid: int, plan: FlowPlan) -> None:
        """Find the probes of process `pid`; NoInputError if it lacks one."""
        super().__init__(pid)
        self._plan = plan
        self._unknown_results = 0
        objects = process_objects(pid)
        self._files: dict[str, set[str]] = {}
        try:
            for program, trigger in PROBES.items():
                self._files[program] = files_with(trigger, objects)
        except NoInputError as error:
            is_netdev = not has_kernel_datapath(pid)
            raise without_probes(error, objects, is_netdev=is_netdev) from error
        version = find_version(objects)
        self._reasons = reason_names(version)
        if not self._reasons:
            reported = "no version that is known" if version is None else "{}.{}".format(*version)
            self.notes.append(
                f"this Open vSwitch is of {reported}: its reasons for deletions are numbers"
            )

        self._ruled: RuledEvents[FlowEvent] | None = None
        if plan.rules and (detrace := connect(pid, version, self.notes)):
            self._ruled = RuledEvents(detrace, _flow_of, _with_rules, _is_modified)

    def _open(self) -> OvsPrograms:
        return OvsPrograms("flows", self._pid, self._plan.ring_bytes)

    def _attach(self) -> None:
        programs = self._programs
        if self._ruled is not None:
            programs.closing.callback(self._ruled.close)
        options = programs.options
        options.key_bytes = room(self._plan.key_bytes)
        options.report_kept = self._plan.kept
        # Open vSwitch's own clock is cut off to milliseconds too.
        options.start_ms = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // NS_PER_MS
        programs.load()
        for program, paths in self._files.items():
            for path in paths:
                programs.attach_usdt(program, PROBES[program], path)

    def take(self) -> Iterator[FlowEvent]:
        """Take away and yield the events that are there; a new flow is one of its own first."""
        return take_ruled(self._events(), self._ruled)

    def rest(self) -> Iterator[FlowEvent]:
        """Yield, at the end, those that waited for their rules."""
        if self._ruled is not None:
            yield from self._ruled.rest()

    def _events(self) -> Iterator[FlowEvent]:
        for data in self._programs.all_records():
            events = list(decode(data, self._plan.key_bytes, self._reasons, kept=self._plan.kept))
            self._unknown_results += not events
            yield from events

    def flows_before(self) -> int:
        """How many of the flows that were there before the start have been seen since."""
        return self._programs.control.flows_before

    def missed(self) -> dict[str, int]:
        """What was not seen, by kind: events without room, hits missed, flows without a slot."""
        return {
            "flow_events": self._programs.lost(lib.EVENT_FLOW_RESULT)
            + sum(map(self._misses, PROBES)),
            "untracked": self._programs.control.flows_untracked,
            "unknown_results": self._unknown_results,
            "unanswered_rules": self._ruled.unanswered if self._ruled is not None else 0,
        }


def _flow_of(event: FlowEvent) -> Flow | None:
    """The flow whose rules the event waits for."""
    if event.change not in ("insert", "modify") or event.rules:
        return None
    return event.ufid, event.pmd_id


def _is_modified(event: FlowEvent) -> bool:
    """Whether Open vSwitch has the flow's rules already."""
    return event.change == "modify"


def _with_rules(event: FlowEvent, rules: tuple[str, ...]) -> FlowEvent:
    """Add them, and to those of a new flow how many it cannot have been made of."""
    if event.change == "insert":
        rules = with_newer(rules, event.created_ns)
    return replace(event, rules=rules)


def decode(
    data: bytes, key_bytes: int, reasons: Mapping[int, str], *, kept: bool
) -> Iterator[FlowEvent]:
    """The events that a record makes: that a flow is new, and what became of it."""
    record = ffi.from_buffer("struct flow_event *", data)
    key_at = ffi.sizeof("struct flow_event")
    mask_at = key_at + room(key_bytes)
    key = data[key_at : key_at + min(record.key_size, key_bytes)]
    mask = data[mask_at : mask_at + min(record.mask_size, key_bytes)]
    if record.is_new:
        yield _event(record, "insert", key, mask, {})
    change = CHANGES.get(record.result)
    if change is not None and (change != "keep" or kept):
        yield _event(record, change, key, mask, reasons)


def _event(
    record: "FlowEventPointer",
    change: FlowChange,
    key: bytes,
    mask: bytes,
    reasons: Mapping[int, str],
) -> FlowEvent:
    is_insert = change == "insert"
    created_ns = record.created_ms * NS_PER_MS
    number = record.reason if change == "delete" else 0
    return FlowEvent(
        time_ns=created_ns if is_insert else record.event.time_ns,
        tid=record.event.tid,
        comm=text(record.event.comm),
        change=change,
        in_sweep=bool(record.in_sweep),
        reason=reasons.get(number) if change == "delete" else None,
        reason_number=number,
        datapath=text(record.datapath),
        ufid=ufid_text(*record.ufid),
        layer=text(record.layer),
        pmd_id=record.pmd_id,
        created_ns=created_ns,
        used_ns=record.used_ms * NS_PER_MS or None,
        n_packets=record.n_packets,
        n_bytes=record.n_bytes,
        key=key,
        key_len=record.key_len,
        mask=mask,
        mask_len=record.mask_len,
    )
