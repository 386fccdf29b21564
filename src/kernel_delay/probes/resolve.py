"""A trigger and a process → where to attach, or one line that says why not."""

from collections.abc import Callable

from kernel_delay.host.tracefs import tracefs
from kernel_delay.probes import AttachPoint
from kernel_delay.probes.kernel import KernelFunctions, find_tracepoint, kernel_functions
from kernel_delay.probes.objects import process_objects
from kernel_delay.probes.triggers import (
    KprobeTrigger,
    TracepointTrigger,
    Trigger,
    UprobeTrigger,
    UsdtTrigger,
)
from kernel_delay.probes.user import resolve_uprobe, resolve_usdt


def resolve(
    trigger: Trigger, pid: int, functions: Callable[[], KernelFunctions] = kernel_functions
) -> tuple[AttachPoint, ...]:
    """Find all places where `trigger` fires for process `pid`: one, or more for USDT.

    `functions` lists the kernel's, if need be: they take long to read, and who
    resolves several triggers may read them once.
    Raises NoInputError where what it names does not exist, with the closest
    names that do; UnavailableError where this kernel can't probe it; and
    PermissionDeniedError where this user may not look.
    """
    match trigger:
        case UsdtTrigger():
            return resolve_usdt(trigger, process_objects(pid))
        case UprobeTrigger():
            return (resolve_uprobe(trigger, process_objects(pid)),)
        case TracepointTrigger(system=system, event=event):
            with tracefs() as root:
                return (find_tracepoint(root, system, event),)
        case KprobeTrigger(function=function, offset=offset, is_return=is_return):
            return (functions().find(function, offset, is_return),)
