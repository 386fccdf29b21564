"""The events of upcalls, as upcall.bpf.c sees them."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType, TracebackType
from typing import Self

from msgspec import Struct

from kernel_delay.errors import NoInputError
from kernel_delay.host.target import network_inode
from kernel_delay.libbpf import BpfError
from kernel_delay.loader.refusals import refusal
from kernel_delay.ovs.monitors._ovs_records import lib
from kernel_delay.ovs.monitors.datapath_module import has_kernel_datapath, why_no_datapath
from kernel_delay.ovs.monitors.programs import OvsPrograms
from kernel_delay.ovs.monitors.upcall_records import decode, room
from kernel_delay.ovs.probes import files_with
from kernel_delay.ovs.upcalls import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)
from kernel_delay.ovs.upcalls.port_names import PortName
from kernel_delay.probes.objects import ProbedObject, process_objects
from kernel_delay.probes.triggers import UsdtTrigger

RING_BYTES = 1 << 24

RECEIPT = "on_recv_upcall"
USDT_PROBES: Mapping[str, UsdtTrigger] = MappingProxyType(
    {
        RECEIPT: UsdtTrigger("dpif_recv", "recv_upcall"),
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
    size of the buffer that events come through, a power of two.
    """

    packet_bytes: int
    key_bytes: int
    whole_trip: bool
    ring_bytes: int = RING_BYTES


class UpcallEvents:
    """Follows a process's upcalls. Used as a context manager, it detaches at the end.

    `notes` say, a line each, what can't be seen here, and why.
    """

    def __init__(self, pid: int, plan: UpcallPlan) -> None:
        """Find the probes of process `pid`.

        Raises NoInputError if it lacks the one without which nothing works,
        dpif_recv:recv_upcall.
        """
        self.notes: list[str] = []
        self._pid = pid
        self._plan = plan
        self._files = self._find_probes(process_objects(pid))
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Load and attach; PermissionDeniedError or UnavailableError when the kernel refuses."""
        with ExitStack() as failing:
            programs = failing.enter_context(
                OvsPrograms("upcall", self._pid, self._plan.ring_bytes)
            )
            self._programs = programs
            self._kernel_programs = self._wanted_of_kernel()
            wanted = {*self._files, *self._kernel_programs}
            for program in programs.object.programs():
                program.autoload = program.name in wanted
            options = programs.options
            options.network_inode = network_inode(self._pid)
            options.packet_bytes = room(self._plan.packet_bytes)
            options.key_bytes = room(self._plan.key_bytes)
            options.report_sent = self._plan.whole_trip
            programs.load()
            self._attach()
            self._closing = failing.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Detach and unload."""
        self._closing.close()

    def take(self) -> Iterator[Event | PortName]:
        """Take away and yield the events that are there, in the order they were reported."""
        for data in self._programs.all_records():
            yield decode(data, self._plan.packet_bytes, self._plan.key_bytes)

    def missed(self) -> dict[str, int]:
        """How many events of each type, by its tag, were missed since they were attached."""
        return {
            str(kind.__struct_config__.tag): self._programs.lost(number) + self._misses(program)
            for kind, (number, program) in EVENT_TYPES.items()
        }

    def _misses(self, program: str) -> int:
        programs = {"on_dp_upcall", "on_dp_upcall_exit"} if program == "on_dp_upcall" else {program}
        loaded = programs & {*self._files, *self._kernel_programs}
        return sum(self._programs.object.program(name).recursion_misses() for name in loaded)

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
                    raise
                self.notes.append(f"{error}; costs that it begins or ends are not measured")
        return files

    def _wanted_of_kernel(self) -> tuple[str, ...]:
        reason = why_no_datapath()
        if not has_kernel_datapath(self._pid):
            none = f"process {self._pid} has no datapath in the kernel"
            unloaded = f" ({reason})" if reason is not None else ""
            self.notes.append(f"{none}{unloaded}: {NETDEV}")
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

    def _attach(self) -> None:
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
