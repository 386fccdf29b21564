"""The programs that open and close windows: which of them a plan needs, and where.

The other side is bpf/trigger.h.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from kernel_delay.capture.plan import TriggerPoints, WindowPlan
from kernel_delay.errors import KernelDelayError, PermissionDeniedError, UnavailableError
from kernel_delay.host.target import living_thread
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.features import takes_perf_events
from kernel_delay.loader.objects import why_forbidden
from kernel_delay.loader.programs import BpfObject, Link, Program
from kernel_delay.probes import AttachPoint, KernelProbe, Tracepoint, UserProbe
from kernel_delay.probes.in_use import in_use

BOUNDARIES = ("start", "stop", "both")
TriggerKinds = Mapping[type[AttachPoint], str]
"""How the programs for each kind of place are called, in capture.bpf.c."""

WINDOW_KINDS: TriggerKinds = MappingProxyType(
    {UserProbe: "uprobe", KernelProbe: "kprobe", Tracepoint: "tracepoint"}
)

# With rounds triggers are in user code.
ROUND_KINDS: TriggerKinds = MappingProxyType({UserProbe: "round"})
PREEMPTED_ROUND_KINDS: TriggerKinds = MappingProxyType({UserProbe: "round_preemptible"})


def trigger_program_names() -> frozenset[str]:
    """Return the names of all trigger programs in capture.bpf.c."""
    all_kinds = (WINDOW_KINDS, ROUND_KINDS, PREEMPTED_ROUND_KINDS)
    return frozenset(
        f"on_{boundary}_{kind}"
        for boundary in BOUNDARIES
        for kinds in all_kinds
        for kind in kinds.values()
    )


def trigger_kinds(*, has_rounds: bool, preempted: bool) -> TriggerKinds:
    """Return which programs triggers have: they begin windows, or a thread's rounds.

    Args:
        has_rounds: they begin rounds.
        preempted: this kernel may preempt the programs of probes in user code.
    """
    if not has_rounds:
        return WINDOW_KINDS
    return PREEMPTED_ROUND_KINDS if preempted else ROUND_KINDS


def needed_program_names(plan: WindowPlan, kinds: TriggerKinds) -> frozenset[str]:
    """Return the names of the trigger programs that the plan needs loaded."""
    return frozenset(
        _program_name(boundary, point, kinds)
        for boundary, trigger in _boundaries(plan)
        for point in trigger.points
    )


def attach_triggers(
    bpf_object: BpfObject, pid: int, plan: WindowPlan, kinds: TriggerKinds
) -> Iterator[Link]:
    """Attach the plan's triggers, those in user code for process `pid` only.

    Raises PermissionDeniedError or UnavailableError when the kernel refuses a place.
    """
    for boundary, trigger in _boundaries(plan):
        for point in trigger.points:
            program = bpf_object.program(_program_name(boundary, point, kinds))
            try:
                yield _attach(program, pid, point)
            except BpfError as error:
                raise _refused(trigger, point, program, pid, error) from error


def _boundaries(plan: WindowPlan) -> Iterator[tuple[str, TriggerPoints]]:
    """Yield what each trigger does; what closes a window comes before what opens the first."""
    if plan.start and plan.stop and plan.start.points == plan.stop.points:
        yield "both", plan.start
        return
    if plan.stop:
        yield "stop", plan.stop
    if plan.start:
        yield "start", plan.start


def _program_name(boundary: str, point: AttachPoint, kinds: TriggerKinds) -> str:
    return f"on_{boundary}_{kinds[type(point)]}"


def _attach(program: Program, pid: int, point: AttachPoint) -> Link:
    match point:
        case UserProbe():
            # perf_event_open(2) takes no thread that has ended, as the first may have; the
            # probe is for all threads that have the same memory.
            return program.attach_uprobe(
                living_thread(pid) or pid,
                point.path,
                point.file_offset,
                is_return=point.is_return,
                semaphore_offset=point.semaphore_offset,
            )
        case KernelProbe():
            return program.attach_kprobe(point.function, point.offset, is_return=point.is_return)
        case Tracepoint():
            return program.attach_tracepoint(point.id)


def _refused(
    trigger: TriggerPoints, point: AttachPoint, program: Program, pid: int, error: BpfError
) -> KernelDelayError:
    if isinstance(point, UserProbe):
        reason = in_use(error, program, pid, trigger.text, [point])
        if reason is not None:
            return reason
    what = f"the kernel can't put a probe at {trigger.text} ({error.strerror})"
    if forbidden := why_forbidden(error, takes_perf_events):
        return PermissionDeniedError(f"{what}: {forbidden.why}", forbidden.remedy)
    return UnavailableError(what, "choose another place ('kernel-delay probes' lists them)")
