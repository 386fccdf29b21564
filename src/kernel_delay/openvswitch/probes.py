"""The USDT probes of Open vSwitch: in which of its versions they are, and where in a process."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kernel_delay.errors import NoInputError
from kernel_delay.openvswitch.installed import Version, find_version
from kernel_delay.probes import UserProbe
from kernel_delay.probes.objects import ProbedObject
from kernel_delay.probes.triggers import UsdtTrigger
from kernel_delay.probes.user import BUILD_OPTION, resolve_usdt

# The first release whose source has an OVS_USDT_PROBE() for it; none was gone by 4.0.
FIRST_VERSIONS: Mapping[UsdtTrigger, Version] = MappingProxyType(
    {
        UsdtTrigger("main", "run_start"): (2, 17),
        UsdtTrigger("main", "poll_block"): (2, 17),
        UsdtTrigger("dpif_recv", "recv_upcall"): (2, 17),
        UsdtTrigger("dpif_netlink_operate__", "op_flow_put"): (2, 17),
        UsdtTrigger("dpif_netlink_operate__", "op_flow_execute"): (2, 17),
        UsdtTrigger("udpif_revalidator", "start_dump"): (3, 2),
        UsdtTrigger("udpif_revalidator", "sweep_done"): (3, 2),
        UsdtTrigger("revalidate_ukey__", "entry"): (3, 2),
        UsdtTrigger("revalidate", "flow_result"): (3, 4),
        UsdtTrigger("revalidator_sweep__", "flow_sweep_result"): (3, 4),
    }
)

FLOW_RESULTS = (
    UsdtTrigger("revalidate", "flow_result"),
    UsdtTrigger("revalidator_sweep__", "flow_sweep_result"),
)
"""What becomes of flows: `kernel-delay flows` has nothing without both."""


def find_probe(probe: UsdtTrigger, objects: Sequence[ProbedObject]) -> tuple[UserProbe, ...]:
    """Find every place of the probe in `objects`, a process's executable and libraries.

    Raises NoInputError if there is none, with the version that has it and how that is built.
    """
    try:
        return resolve_usdt(probe, objects)
    except NoInputError as error:
        line = str(error)
        built = "" if BUILD_OPTION in line else f", built with {BUILD_OPTION}"
        since = f"Open vSwitch has it from {_text(FIRST_VERSIONS[probe])} on{built}"
        raise NoInputError(f"{line} ({since}{_too_old(probe, objects)})") from None


def files_with(probe: UsdtTrigger, objects: Sequence[ProbedObject]) -> set[str]:
    """The files that find_probe() finds it in; raises the same."""
    return {place.path for place in find_probe(probe, objects)}


def _too_old(probe: UsdtTrigger, objects: Sequence[ProbedObject]) -> str:
    version = find_version(objects)
    if version is None or version >= FIRST_VERSIONS[probe]:
        return ""
    return f"; this is {_text(version)}"


def _text(version: Version) -> str:
    return "{}.{}".format(*version)
