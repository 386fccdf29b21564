"""The upcalls of the kernel's datapath, counted in each window: upcall_statistics.bpf.c."""

import errno
from collections import defaultdict
from contextlib import ExitStack

from kernel_delay.capture.programs import Programs
from kernel_delay.errors import UnavailableError
from kernel_delay.loader._records import lib as shared
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.objects import load_object, open_object, refusal
from kernel_delay.model import Lost, UpcallCount, Upcalls, UpcallStats
from kernel_delay.monitors.upcalls._upcall_records import ffi
from kernel_delay.openvswitch.installed import MODULE, network_inode, why_no_datapath


def open_counters(pid: int, programs: Programs) -> "UpcallCounters | None":
    """Return what counts the upcalls for process `pid`, in the windows of `programs`.

    None where there are none to count, as the module openvswitch is not loaded.
    Raises UnavailableError or PermissionDeniedError where there are, but the
    kernel does not let them be counted.
    """
    reason = why_no_datapath()
    if reason is None:
        return UpcallCounters(pid, programs)
    if MODULE.exists():
        raise UnavailableError(reason)
    return None


class UpcallCounters:
    """The counting program, in the kernel until it is closed."""

    def __init__(self, pid: int, programs: Programs) -> None:
        """Load and attach."""
        self._lost = 0
        with ExitStack() as failing:
            bpf_object = failing.enter_context(open_object("upcall_statistics"))
            initial = bpf_object.map(".rodata.upcalls").initial_values()
            options = ffi.cast("struct upcall_options *", initial)
            options.network_inode = network_inode(pid)
            programs.share_windows(bpf_object)
            load_object(bpf_object)
            memory = bpf_object.map(".data.upcalls").mmap()
            self._control = ffi.from_buffer("struct upcall_control *", memory)
            self._counters = bpf_object.map("upcall_counters")
            self._program = bpf_object.program("on_dp_upcall_exit")
            try:
                failing.callback(self._program.attach().close)
            except BpfError as error:
                raise refusal(error) from error
            self._closing = failing.pop_all()

    def close(self) -> None:
        """Detach and unload."""
        self._closing.close()

    def take(self, epoch: int) -> tuple[UpcallStats, ...]:
        """Return what was counted in the epoch's window, which must be over, by error.

        The counters of that window and of all older ones are forgotten.
        """
        counts: defaultdict[int, dict[int, int]] = defaultdict(dict)
        for data in self._counters.keys():  # noqa: SIM118 (a map is no dict)
            key = ffi.from_buffer("struct upcall_counter_key *", data)
            if key.epoch > epoch:
                continue
            count = self._counters.pop(data)
            if key.epoch == epoch:
                counts[key.error][key.cpu] = count
        return tuple(_stats(error, cpus) for error, cpus in sorted(counts.items()))

    def so_far(self) -> Upcalls:
        """Return all that were counted in a window that is open and was not taken from yet."""
        failed = sent = 0
        for data in self._counters.keys():  # noqa: SIM118 (a map is no dict)
            count = self._counters.get(data)
            if ffi.from_buffer("struct upcall_counter_key *", data).error:
                failed += count
            else:
                sent += count
        return Upcalls(sent, failed)

    def lost(self) -> Lost:
        """Return the upcalls that were not counted since the last call."""
        lost = shared.load_counter(ffi.addressof(self._control, "lost"))
        lost += self._program.recursion_misses()
        new, self._lost = lost - self._lost, lost
        return Lost(upcalls=new)


def _stats(error: int, cpus: dict[int, int]) -> UpcallStats:
    return UpcallStats(
        error=error,
        name=errno.errorcode.get(error),
        count=sum(cpus.values()),
        cpus=tuple(UpcallCount(cpu, count) for cpu, count in sorted(cpus.items())),
    )
