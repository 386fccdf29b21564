"""The events of ovs-vswitchd's main loop, as bridge_loop.bpf.c sees them."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel_delay.errors import NoInputError
from kernel_delay.monitors.bridge_loop.events import LoopEvent, Probe
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.functions import MAIN_LOOP, at_functions
from kernel_delay.openvswitch.installed import has_kernel_datapath
from kernel_delay.openvswitch.probes import find_probe
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, text
from kernel_delay.probes.objects import process_objects

# 16,000 passes: more than a loop that never waits makes between two looks.
RING_BYTES = 1 << 21

PROBES: Mapping[int, Probe] = MappingProxyType(
    {lib.EVENT_RUN_START: "run_start", lib.EVENT_POLL_BLOCK: "poll_block"}
)


class LoopProbes(Probes):
    """Follows a process's main loop."""

    def __init__(self, pid: int) -> None:
        """Find the probes of process `pid`; NoInputError if it has none, nor symbols."""
        super().__init__(pid)
        objects = process_objects(pid)
        try:
            self._places = {
                program: find_probe(trigger, objects)
                for program, trigger in MAIN_LOOP.probes.items()
            }
        except NoInputError as error:
            functions = MAIN_LOOP.find_functions(
                objects, error, is_netdev=not has_kernel_datapath(pid)
            )
            self._places = {program: (place,) for program, place in functions.items()}
            self.notes.append(at_functions(functions, MAIN_LOOP))
        self._lost_before = 0

    def _open(self) -> OvsPrograms:
        return OvsPrograms("bridge_loop", self._pid, RING_BYTES)

    def _attach(self) -> None:
        self._programs.load()
        for program, places in self._places.items():
            for place in places:
                self._programs.attach_uprobe(program, place, str(MAIN_LOOP.probes[program]))

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
