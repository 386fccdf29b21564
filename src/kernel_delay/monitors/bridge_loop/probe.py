"""The events of ovs-vswitchd's main loop, as bridge_loop.bpf.c sees them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel_delay.host.target import living_thread
from kernel_delay.libbpf import BpfError
from kernel_delay.loader.refusals import refusal
from kernel_delay.monitors.bridge_loop.events import LoopEvent, Probe
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.probes import find_probe
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, text
from kernel_delay.probes.attach_points import UserProbe
from kernel_delay.probes.in_use import in_use
from kernel_delay.probes.objects import process_objects
from kernel_delay.probes.triggers import UsdtTrigger

# 16,000 passes: more than a loop that never waits makes between two looks.
RING_BYTES = 1 << 21

PROBES: Mapping[int, Probe] = MappingProxyType(
    {lib.EVENT_RUN_START: "run_start", lib.EVENT_POLL_BLOCK: "poll_block"}
)


class LoopProbes(Probes):
    """Follows a process's main loop."""

    def __init__(self, pid: int) -> None:
        """Find the probes of process `pid`; NoInputError if it has none."""
        super().__init__(pid)
        objects = process_objects(pid)
        self._places = {
            probe: find_probe(UsdtTrigger("main", probe), objects) for probe in PROBES.values()
        }
        self._lost_before = 0

    def _open(self) -> OvsPrograms:
        return OvsPrograms("bridge_loop", self._pid, RING_BYTES)

    def _attach(self) -> None:
        self._programs.load()
        for probe, places in self._places.items():
            for place in places:
                self._attach_to(probe, place)

    def _attach_to(self, probe: Probe, place: UserProbe) -> None:
        try:
            self._programs.attach(
                lambda program: program.attach_uprobe(
                    living_thread(self._pid) or self._pid,
                    place.path,
                    place.file_offset,
                    is_return=False,
                    semaphore_offset=place.semaphore_offset,
                ),
                f"on_{probe}",
            )
        except BpfError as error:
            program = self._programs.object.program(f"on_{probe}")
            name = str(UsdtTrigger("main", probe))
            reason = in_use(error, program, self._pid, name, [place])
            raise reason or refusal(error) from error

    def take(self) -> Iterator[tuple[LoopEvent, bool]]:
        """Yield the new events, and with each whether others were lost since the one before."""
        for data in self._programs.records():
            record = ffi.from_buffer("struct ovs_event *", data)
            event = LoopEvent(PROBES[record.type], record.time_ns, record.tid, text(record.comm))
            yield event, record.lost != self._lost_before
            self._lost_before = record.lost

    def missed(self) -> dict[str, int]:
        """Return how many events found no room."""
        return {"loop_events": sum(map(self._programs.lost, PROBES))}
