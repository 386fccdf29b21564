"""The events of upcalls, as upcall.bpf.c sees them."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.errors import NoInputError
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.objects import refusal
from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    PortName,
    RecvUpcall,
    UpcallKind,
)
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.detrace import (
    NOT_PMD,
    Flow,
    RuledEvents,
    connect,
    take_ruled,
    with_newer,
)
from kernel_delay.openvswitch.flow_key.text import ufid_text
from kernel_delay.openvswitch.functions import RECEIPTS, at_functions
from kernel_delay.openvswitch.installed import (
    find_version,
    has_kernel_datapath,
    network_inode,
    why_no_datapath,
)
from kernel_delay.openvswitch.probes import files_with
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, room, text
from kernel_delay.probes import UserProbe
from kernel_delay.probes.objects import ProbedObject, process_objects
from kernel_delay.probes.triggers import UsdtTrigger

if TYPE_CHECKING:
    from kernel_delay.openvswitch._ovs_records import UpcallEventPointer

RING_BYTES = 1 << 24

RECEIPT = "on_recv_upcall"
USDT_PROBES: Mapping[str, UsdtTrigger] = MappingProxyType(
    {
        **RECEIPTS.probes,
        "on_flow_put": UsdtTrigger("dpif_netlink_operate__", "op_flow_put"),
        "on_flow_execute": UsdtTrigger("dpif_netlink_operate__", "op_flow_execute"),
    }
)
# In the order they are attached: of an upcall whose beginning is seen, so is the end.
KERNEL_PROGRAMS = ("on_dp_upcall_exit", "on_packet_cmd_execute", "on_dp_upcall")

EVENT_TYPES: Mapping[type[Event], tuple[int, str]] = MappingProxyType(
    {
        DpUpcall: (lib.EVENT_DP_UPCALL, "on_dp_upcall"),
        RecvUpcall: (lib.EVENT_RECV_UPCALL, RECEIPT),
        FlowPut: (lib.EVENT_FLOW_PUT, "on_flow_put"),
        FlowExecute: (lib.EVENT_FLOW_EXECUTE, "on_flow_execute"),
        PacketCmdExecute: (lib.EVENT_PACKET_CMD_EXECUTE, "on_packet_cmd_execute"),
    }
)

NETDEV = (
    "upcalls of a userspace datapath (netdev) never pass the kernel and are not seen; measure with"
    " bridge-loop and capture, count with 'ovs-appctl dpif-netdev/pmd-stats-show' and 'upcall/show'"
)

LACKING: Mapping[str, str] = MappingProxyType(
    {
        "on_dp_upcall_exit": "which upcalls the kernel drops is not seen",
        "on_packet_cmd_execute": "costs that end in the kernel are not measured",
    }
)


class UpcallPlan(Struct, frozen=True):
    """Which events of upcalls are wanted.

    With `whole_trip` all of them; without, what a handler receives, what the
    kernel drops, and the names of ports. At most `packet_bytes` and
    `key_bytes` are captured of each packet and flow key. `ring_bytes` is the
    size of the buffer that events come through, a power of two. With `rules`
    flows that are put have their OpenFlow rules.
    """

    packet_bytes: int
    key_bytes: int
    whole_trip: bool
    ring_bytes: int = RING_BYTES
    rules: bool = False


class UpcallProbes(Probes):
    """Follows a process's upcalls."""

    def __init__(self, pid: int, plan: UpcallPlan) -> None:
        """Find the probes of process `pid`.

        Raises NoInputError if it lacks the one without which nothing works,
        dpif_recv:recv_upcall, and the symbols that replace it.
        """
        super().__init__(pid)
        self._plan = plan
        self._functions: dict[str, UserProbe] = {}
        objects = process_objects(pid)
        self._files = self._find_probes(objects)
        self._ruled: RuledEvents[Event | PortName] | None = None
        if plan.rules and (detrace := connect(pid, find_version(objects), self.notes)):
            self._ruled = RuledEvents(detrace, _flow_of, _with_rules)

    def _open(self) -> OvsPrograms:
        return OvsPrograms("upcall", self._pid, self._plan.ring_bytes)

    def _attach(self) -> None:
        programs = self._programs
        self._kernel_programs = self._wanted_of_kernel()
        wanted = {*self._files, *self._functions, *self._kernel_programs}
        for program in programs.object.programs():
            program.autoload = program.name in wanted
        options = programs.options
        options.network_inode = network_inode(self._pid)
        options.packet_bytes = room(self._plan.packet_bytes)
        options.key_bytes = room(self._plan.key_bytes)
        options.report_sent = self._plan.whole_trip
        if self._ruled is not None:
            programs.closing.callback(self._ruled.close)
        programs.load()
        self._attach_all()

    def take(self) -> Iterator[Event | PortName]:
        """Take away and yield the events that are there, in the order they were reported."""
        return take_ruled(self._events(), self._ruled)

    def rest(self) -> Iterator[Event | PortName]:
        """Yield, at the end, those that waited for their rules."""
        if self._ruled is not None:
            yield from self._ruled.rest()

    def _events(self) -> Iterator[Event | PortName]:
        for data in self._programs.all_records():
            yield decode(data, self._plan.packet_bytes, self._plan.key_bytes)

    def missed(self) -> dict[str, int]:
        """How many events of each type, by its tag, were missed; and rules, where there are any."""
        events = {
            str(kind.__struct_config__.tag): self._programs.lost(number) + self._misses_of(program)
            for kind, (number, program) in EVENT_TYPES.items()
        }
        if self._ruled is None:
            return events
        return {**events, "unanswered_rules": self._ruled.unanswered}

    def _misses_of(self, program: str) -> int:
        programs = {program}
        if program == "on_dp_upcall":
            programs.add("on_dp_upcall_exit")
        elif program == RECEIPT:
            programs.update(RECEIPTS.functions)
        loaded = programs & {*self._files, *self._functions, *self._kernel_programs}
        return sum(map(self._misses, loaded))

    def _find_probes(self, objects: tuple[ProbedObject, ...]) -> dict[str, set[str]]:
        """The files that each program's probe is in."""
        files = {}
        for program, trigger in USDT_PROBES.items():
            if program != RECEIPT and not self._plan.whole_trip:
                continue
            try:
                files[program] = files_with(trigger, objects)
            except NoInputError as error:
                if program == RECEIPT:
                    # Its functions would help nothing there.
                    if is_netdev := not has_kernel_datapath(self._pid):
                        raise NoInputError(self._no_kernel_datapath()) from error
                    self._functions |= RECEIPTS.find_functions(objects, error, is_netdev=is_netdev)
                    self.notes.append(at_functions(self._functions, RECEIPTS))
                    continue
                self.notes.append(f"{error}; costs that it begins or ends are not measured")
        return files

    def _no_kernel_datapath(self) -> str:
        reason = why_no_datapath()
        unloaded = f" ({reason})" if reason is not None else ""
        return f"process {self._pid} has no datapath in the kernel{unloaded}: {NETDEV}"

    def _wanted_of_kernel(self) -> tuple[str, ...]:
        reason = why_no_datapath()
        if not has_kernel_datapath(self._pid):
            self.notes.append(self._no_kernel_datapath())
        elif reason is not None:
            lacking = (
                "no upcall is seen in the kernel"
                if self._plan.whole_trip
                else ("upcalls that the kernel drops, and names of ports, are not seen")
            )
            self.notes.append(f"{reason}: {lacking}")
        if reason is not None:
            return ()
        return tuple(
            name
            for name in KERNEL_PROGRAMS
            if self._plan.whole_trip or name != "on_packet_cmd_execute"
        )

    def _attach_all(self) -> None:
        for program, place in self._functions.items():
            self._programs.attach_uprobe(program, place, program)
        for program, paths in self._files.items():
            for path in paths:
                self._programs.attach_usdt(program, USDT_PROBES[program], path)
        try:
            for program in self._kernel_programs:
                self._attach_kernel(program)
        except BpfError as error:
            raise refusal(error) from error

    def _attach_kernel(self, program: str) -> None:
        try:
            self._programs.attach(lambda program: program.attach(), program)
        except BpfError as error:
            # Direct calls from ftrace, which programs at a function's begin and end need, came
            # to arm64 with Linux 6.4; the tracepoint does without.
            if program == "on_dp_upcall":
                raise
            self.notes.append(
                f"this kernel can't run {program} ({error.strerror}): {LACKING[program]}"
            )
            if program == "on_dp_upcall_exit":
                self._programs.control.results_unknown = 1


def _flow_of(event: Event | PortName) -> Flow | None:
    """The flow whose rules the event waits for; no PMD thread has one of the kernel's."""
    if not isinstance(event, FlowPut) or not event.ufid or event.rules:
        return None
    return event.ufid, NOT_PMD


def _with_rules(event: Event | PortName, rules: tuple[str, ...]) -> Event | PortName:
    if not isinstance(event, FlowPut):
        return event
    return replace(event, rules=with_newer(rules, event.time_ns))


# A port's number is 16 bits wide in the kernel, and the highest means that there is
# none (DP_MAX_PORTS, net/openvswitch/datapath.h, 6.18).
DP_MAX_PORTS = 0xFFFF


class Where(TypedDict):
    """What every event has."""

    time_ns: int
    cpu: int
    tid: int
    comm: str


class Captured(Struct, frozen=True):
    """A record, and what of the packet and of the key is behind it."""

    record: "UpcallEventPointer"
    packet: bytes
    key: bytes

    @property
    def where(self) -> Where:
        """When and where it happened."""
        event = self.record.event
        return {
            "time_ns": event.time_ns,
            "cpu": event.cpu,
            "tid": event.tid,
            "comm": text(event.comm),
        }


def decode(data: bytes, packet_bytes: int, key_bytes: int) -> Event | PortName:
    """The event in `data`, cut to these lengths of packet and key."""
    record = ffi.from_buffer("struct upcall_event *", data)
    packet_at = ffi.sizeof("struct upcall_event")
    key_at = packet_at + room(packet_bytes)
    captured = Captured(
        record,
        packet=data[packet_at : packet_at + min(record.packet_size, packet_bytes)],
        key=data[key_at : key_at + min(record.key_size, key_bytes)],
    )
    return EVENTS[record.event.type](captured)


def _kind(record: "UpcallEventPointer") -> UpcallKind:
    # Of a process that says something else, it is at least no miss.
    return "miss" if record.kind == lib.UPCALL_MISS else "action"


def _port_name(captured: Captured) -> PortName:
    record = captured.record
    return PortName(text(record.datapath), record.in_port, text(record.device))


def _dp_upcall(captured: Captured) -> DpUpcall:
    record = captured.record
    return DpUpcall(
        **captured.where,
        datapath=text(record.datapath),
        device=text(record.device),
        kind=_kind(record),
        packet=captured.packet,
        packet_len=record.packet_len,
        linear_len=record.linear_len,
        in_port=None if record.in_port == DP_MAX_PORTS else record.in_port,
        recirc_id=record.recirc_id,
        error=record.error,
    )


def _recv_upcall(captured: Captured) -> RecvUpcall:
    record = captured.record
    return RecvUpcall(
        **captured.where,
        datapath=text(record.datapath),
        kind=_kind(record),
        packet=captured.packet,
        packet_len=record.packet_len,
        key=captured.key,
        key_len=record.key_len,
    )


def _flow_put(captured: Captured) -> FlowPut:
    record = captured.record
    key_len = record.key_len if captured.key else 0
    ufid = ufid_text(*record.ufid) if record.has_ufid else ""
    return FlowPut(**captured.where, key=captured.key, key_len=key_len, ufid=ufid)


def _flow_execute(captured: Captured) -> FlowExecute:
    packet_len = captured.record.packet_len
    return FlowExecute(**captured.where, packet=captured.packet, packet_len=packet_len)


def _packet_cmd_execute(captured: Captured) -> PacketCmdExecute:
    packet_len = captured.record.packet_len if captured.packet else 0
    return PacketCmdExecute(**captured.where, packet=captured.packet, packet_len=packet_len)


EVENTS: Mapping[int, Callable[[Captured], Event | PortName]] = MappingProxyType(
    {
        lib.EVENT_PORT: _port_name,
        lib.EVENT_DP_UPCALL: _dp_upcall,
        lib.EVENT_RECV_UPCALL: _recv_upcall,
        lib.EVENT_FLOW_PUT: _flow_put,
        lib.EVENT_FLOW_EXECUTE: _flow_execute,
        lib.EVENT_PACKET_CMD_EXECUTE: _packet_cmd_execute,
    }
)
