"""Functions of Open vSwitch that begin or end where it has USDT probes, for builds without these.

Programs read arguments where the System V ABI and the AAPCS64 have them when a function begins.
So a function that the compiler cloned (`.isra.0`, `.constprop.0`) does not serve, nor one that it
inlined. Where the functions are called is the same in Open vSwitch 2.17 to 4.0.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.errors import NoInputError
from kernel_delay.probes import UserProbe
from kernel_delay.probes.objects import ProbedObject
from kernel_delay.probes.triggers import UprobeTrigger, UsdtTrigger
from kernel_delay.probes.user import is_ovs
from kernel_delay.symbols.functions import Functions


class Followed(Struct, frozen=True):
    """What programs follow at USDT probes, or else at functions, each by its program's name.

    `otherwise` is the command that measures what it can without both; `otherwise_netdev` is the one
    for a process that has no datapath in the kernel, but userspace datapaths (netdev) alone.
    """

    probes: Mapping[str, UsdtTrigger]
    functions: Mapping[str, UprobeTrigger]
    otherwise: str
    otherwise_netdev: str

    def find_functions(
        self, objects: Sequence[ProbedObject], lacking: NoInputError, *, is_netdev: bool
    ) -> dict[str, UserProbe]:
        """Find the functions in a process's `objects`, as `lacking` says which probe is not there.

        Raises NoInputError with what helps if one of them is not there either.
        """
        if not is_ovs(objects[0].name):
            raise lacking
        places: dict[str, UserProbe] = {}
        for where in filter(lambda each: is_ovs(each.name), objects):
            functions = where.functions()
            places |= _find(self.functions, where, functions)
            if places.keys() == self.functions.keys():
                return places
        missing = next(name for program, name in self.functions.items() if program not in places)
        reason = f"; it has no symbol {missing.function} either"
        advice = self.advice(objects[0], is_netdev=is_netdev)
        raise NoInputError(f"{lacking}{reason}: {advice}")

    def advice(self, executable: ProbedObject, *, is_netdev: bool) -> str:
        """What to do where neither is there."""
        functions = executable.functions()
        advice = ""
        if functions.stripped:
            file = functions.debug_file()
            has = f", which has {file}," if file else ""
            with_dpdk = "-dpdk" if executable.name.endswith("-dpdk") else ""
            debian = f"openvswitch-switch{with_dpdk}-dbgsym (Debian, Ubuntu)"
            packages = f"{debian} or openvswitch-debuginfo"
            unfetched = f"{functions.unfetched}; " if functions.unfetched else ""
            advice = f"{unfetched}install {packages}{has} or "
        return f"{advice}use '{self.otherwise_netdev if is_netdev else self.otherwise}'"


MAIN_LOOP = Followed(
    probes=MappingProxyType(
        {
            "on_run_start": UsdtTrigger("main", "run_start"),
            "on_poll_block": UsdtTrigger("main", "poll_block"),
        }
    ),
    # The first and the last function that a pass calls, and that nothing else calls.
    functions=MappingProxyType(
        {
            "on_run_start": UprobeTrigger(None, "memory_run"),
            "on_poll_block": UprobeTrigger(None, "netdev_wait", is_return=True),
        }
    ),
    otherwise="kernel-delay watch",
    otherwise_netdev="kernel-delay watch",
)

REVALIDATORS = Followed(
    probes=MappingProxyType(
        {
            "on_start_dump": UsdtTrigger("udpif_revalidator", "start_dump"),
            "on_sweep_done": UsdtTrigger("udpif_revalidator", "sweep_done"),
        }
    ),
    # In the order in which a leader calls them.
    functions=MappingProxyType(
        {
            "on_get_n_flows": UprobeTrigger(None, "udpif_get_n_flows"),
            "on_dump_create": UprobeTrigger(None, "dpif_flow_dump_create"),
            "on_dump_destroy": UprobeTrigger(None, "dpif_flow_dump_destroy"),
            "on_poll_timer_wait": UprobeTrigger(None, "poll_timer_wait_until_at"),
        }
    ),
    otherwise="kernel-delay datapath-ops",
    otherwise_netdev="ovs-appctl upcall/show",
)

RECEIPTS = Followed(
    probes=MappingProxyType({"on_recv_upcall": UsdtTrigger("dpif_recv", "recv_upcall")}),
    functions=MappingProxyType(
        {
            "on_dpif_recv": UprobeTrigger(None, "dpif_recv"),
            "on_dpif_recv_return": UprobeTrigger(None, "dpif_recv", is_return=True),
        }
    ),
    otherwise="kernel-delay datapath-ops",
    otherwise_netdev="ovs-appctl upcall/show",
)

FOLLOWED = MappingProxyType(
    {"main loop": MAIN_LOOP, "revalidators": REVALIDATORS, "upcalls": RECEIPTS}
)
"""All without which a monitor has nothing, by what it is."""

REVALIDATED_FLOWS = Followed(
    probes=MappingProxyType({"on_revalidate_ukey": UsdtTrigger("revalidate_ukey__", "entry")}),
    functions=MappingProxyType(
        {"on_revalidate_ukey_begin": UprobeTrigger(None, "revalidate_ukey__")}
    ),
    otherwise="kernel-delay datapath-ops",
    otherwise_netdev="ovs-appctl upcall/show",
)

REMOVED_FLOWS = Followed(
    # A probe is before the flow is deleted, and says why; the flow goes in the sweep.
    probes=MappingProxyType({}),
    functions=MappingProxyType(
        {
            "on_sweep_begin": UprobeTrigger(None, "revalidator_sweep__"),
            "on_ukey_delete": UprobeTrigger(None, "ukey_delete"),
        }
    ),
    otherwise="kernel-delay datapath-ops",
    otherwise_netdev="ovs-appctl upcall/show",
)

FLOW_CHECKS = Followed(
    # Attached in this order: no check that is counted at its begin lacks its end.
    probes=MappingProxyType(
        {
            "on_check_exit": UsdtTrigger("revalidate_ukey__", "exit"),
            "on_check_entry": UsdtTrigger("revalidate_ukey__", "entry"),
        }
    ),
    functions=MappingProxyType(
        {
            "on_check_end": UprobeTrigger(None, "revalidate_ukey__", is_return=True),
            "on_check_begin": UprobeTrigger(None, "revalidate_ukey__"),
        }
    ),
    otherwise="kernel-delay datapath-ops",
    otherwise_netdev="ovs-appctl upcall/show",
)


def at_functions(functions: Mapping[str, UserProbe], of: Followed) -> str:
    """Say at which functions a monitor measures, as it found no USDT probes."""
    names = {f"{one.function}()": None for name, one in of.functions.items() if name in functions}
    return f"no USDT probes: measured at {', '.join(names)}"


def without_probes(
    lacking: NoInputError, objects: Sequence[ProbedObject], *, is_netdev: bool
) -> NoInputError:
    """The error of a monitor whose probes no function replaces, with the command to use."""
    if not is_ovs(objects[0].name):
        return lacking
    if is_netdev:
        return NoInputError(f"{lacking}; 'ovs-appctl dpctl/dump-flows' lists the flows")
    return NoInputError(f"{lacking}; 'kernel-delay datapath-ops' needs no probe")


def _find(
    wanted: Mapping[str, UprobeTrigger], where: ProbedObject, functions: Functions
) -> dict[str, UserProbe]:
    places = {}
    for program, trigger in wanted.items():
        # Two static functions of one name: which is meant is not known.
        match functions.find(trigger.function or ""):
            case [found]:
                places[program] = UserProbe(
                    where.path, where.name, found.file_offset, is_return=trigger.is_return
                )
    return places
