"""What the process to be measured offers: its binary, its functions, its USDT probes."""

from collections.abc import Sequence

from kernel_delay.commands.check_findings import CheckFinding
from kernel_delay.errors import KernelDelayError, NoInputError
from kernel_delay.host.kernel_names import OVS_VSWITCHD
from kernel_delay.host.target import ProcessTarget
from kernel_delay.openvswitch.functions import FOLLOWED, RECEIPTS, Followed
from kernel_delay.openvswitch.installed import has_kernel_datapath
from kernel_delay.openvswitch.probes import find_probe
from kernel_delay.probes.objects import ProbedObject, process_objects
from kernel_delay.probes.user import read_all_usdt, stripped_advice, why_no_usdt

NO_TRIGGERS = "no function or USDT probe of it can be a trigger"


def process_findings(target: ProcessTarget) -> tuple[CheckFinding, ...]:
    """Look into the process's files; nothing is attached to it."""
    try:
        objects = process_objects(target.pid)
    except KernelDelayError as error:
        return (CheckFinding("binary", "no", str(error), cost=NO_TRIGGERS),)
    binary = CheckFinding("binary", "yes", objects[0].name)
    found = (binary, _functions(objects[0]), _usdt(objects))
    if target.comm not in OVS_VSWITCHD:
        return found
    return (
        *found,
        *(_followed(name, what, objects, target.pid) for name, what in FOLLOWED.items()),
    )


def _followed(name: str, what: Followed, objects: Sequence[ProbedObject], pid: int) -> CheckFinding:
    """At what Open vSwitch's monitors measure it."""
    is_netdev = not has_kernel_datapath(pid)
    if is_netdev and what is RECEIPTS:
        detail = "no datapath in the kernel: those of a userspace datapath never pass the kernel"
        return CheckFinding(name, "no", detail, cost="upcall-monitor and upcall-cost see nothing")
    try:
        for probe in what.probes.values():
            find_probe(probe, objects)
    except NoInputError as error:
        try:
            what.find_functions(objects, error, is_netdev=is_netdev)
        except NoInputError:
            cost = "when it begins and ends is not seen"
            detail = "neither USDT probes nor symbols"
            remedy = what.advice(objects[0], is_netdev=is_netdev)
            return CheckFinding(name, "no", detail, cost=cost, remedy=remedy)
        return CheckFinding(name, "yes", "measured at functions, without USDT probes")
    except KernelDelayError as error:
        return CheckFinding(name, "unknown", str(error))
    return CheckFinding(name, "yes", "measured at USDT probes")


def _functions(executable: ProbedObject) -> CheckFinding:
    cost = "its functions can't be triggers and have no names in stacks"
    try:
        functions = executable.functions()
    except KernelDelayError as error:
        return CheckFinding("symbols", "no", str(error), cost=cost, remedy="restart the process")
    count = len(functions.matching("*"))
    if functions.stripped:
        advice = stripped_advice(executable, functions)
        detail = f"{count} exported functions only: the binary {advice.partition(':')[0]}"
        remedy = advice.partition(": ")[2]
        return CheckFinding("symbols", "no", detail, cost=cost, remedy=remedy)
    return CheckFinding("symbols", "yes", f"{count} functions")


def _usdt(objects: Sequence[ProbedObject]) -> CheckFinding:
    cost = "no place that its authors marked can be a trigger"
    try:
        found = read_all_usdt(objects)
    except KernelDelayError as error:
        return CheckFinding("USDT probes", "unknown", str(error), cost=cost)
    executable = {f"{probe.provider}:{probe.name}" for probe in found[0][1].probes}
    if executable:
        detail = f"{len(executable)} in the binary; 'kernel-delay probes' lists them"
        return CheckFinding("USDT probes", "yes", detail)
    return CheckFinding(
        "USDT probes",
        "no",
        why_no_usdt(objects, found),
        cost=cost,
        remedy="use functions (up:…), kernel functions or tracepoints as triggers",
    )
