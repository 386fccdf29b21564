"""Records without what may be secret: command lines, paths, packets, addresses, names of hosts.

REDACTED and KEPT have each field that holds text or bytes, by `Struct.field`. A field that is in
neither fails a unit test. docs/reference/redaction.md is made of both.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TypeVar, cast

from msgspec import Struct, structs

from kernel_delay.model import Sample

HIDDEN = "[redacted]"

# What is the same wherever the kernel puts a file or a lock: the place within a page.
WITHIN_A_PAGE = 0xFFF

# struct nlmsghdr, struct genlmsghdr and struct ovs_header: what a message is of.
NETLINK_HEADERS_BYTES = 24


class Redaction(Enum):
    """What is left of a field."""

    TEXT = f"`{HIDDEN}`"
    NOTHING = "nothing: null, or an empty list"
    LAST_PART = "the part behind the last slash"
    NO_BYTES = "no bytes, as if none were captured; the length stays"
    HEADERS = "the netlink headers; the length stays"
    PLACE_IN_PAGE = "the last 12 bits of the address, and a thirteenth that is set"
    NO_ADDRESS = f"`{HIDDEN}` instead of an address, or else the name"
    JUDGED = "the verdict on the redacted sample"


_SAMPLES = {
    "Sample.host": Redaction.TEXT,
    "Sample.verdict": Redaction.JUDGED,
    "Target.exe": Redaction.LAST_PART,
    "Target.command_line": Redaction.NOTHING,
    "TriggerHit.trigger": Redaction.LAST_PART,
    "StackFrame.address": Redaction.PLACE_IN_PAGE,
    "StackFrame.object": Redaction.LAST_PART,
    "StackFrame.source": Redaction.LAST_PART,
    "LockWait.address": Redaction.PLACE_IN_PAGE,
    "SleepFile.name": Redaction.TEXT,
    "SleepFile.peer_address": Redaction.TEXT,
    "PortLosses.name": Redaction.TEXT,
    "SocketOverrun.port": Redaction.TEXT,
    "PortOverrun.port": Redaction.TEXT,
    "RxQueue.port": Redaction.TEXT,
    "SystemState.polled_lock": Redaction.TEXT,
    "SystemState.freezers": Redaction.LAST_PART,
    "FilePeer.freezers": Redaction.LAST_PART,
    "CgroupLimit.path": Redaction.TEXT,
    "ChainPart.cgroup": Redaction.TEXT,
    "ChainPart.freezers": Redaction.LAST_PART,
    "ChainPart.device": Redaction.TEXT,
    "ChainThread.title": Redaction.NOTHING,
    "HeldProcess.title": Redaction.NOTHING,
    "MemoryLimit.path": Redaction.TEXT,
    "CpuWeights.path": Redaction.TEXT,
    "CpuWeights.other_path": Redaction.TEXT,
}

_CONTAINERS = dict.fromkeys(
    (
        *("Container.id", "Container.pod"),
        *("Container.name", "Container.pod_name", "Container.pod_namespace"),
    ),
    Redaction.NOTHING,
)

_RECORDINGS = {
    "RecordingHeader.arguments": Redaction.NOTHING,
    "RecordingHeader.host": Redaction.TEXT,
    "RecordingHeader.node": Redaction.NOTHING,
    "RecordedTarget.exe": Redaction.LAST_PART,
    "RecordedTarget.command_line": Redaction.NOTHING,
    "RecordedTarget.cgroup": Redaction.TEXT,
    "Note.text": Redaction.TEXT,
}

_OPEN_VSWITCH = {
    "DpUpcall.device": Redaction.TEXT,
    "DpUpcall.packet": Redaction.NO_BYTES,
    "RecvUpcall.packet": Redaction.NO_BYTES,
    "RecvUpcall.key": Redaction.NO_BYTES,
    "FlowPut.key": Redaction.NO_BYTES,
    "FlowPut.rules": Redaction.NOTHING,
    "FlowExecute.packet": Redaction.NO_BYTES,
    "PacketCmdExecute.packet": Redaction.NO_BYTES,
    "PortName.name": Redaction.TEXT,
    "RevalidatorRound.datapath": Redaction.NO_ADDRESS,
    "FlowEvent.key": Redaction.NO_BYTES,
    "FlowEvent.mask": Redaction.NO_BYTES,
    "FlowEvent.rules": Redaction.NOTHING,
    "OperationEvent.message": Redaction.HEADERS,
    "OperationEvent.reply": Redaction.HEADERS,
}

REDACTED = _SAMPLES | _CONTAINERS | _RECORDINGS | _OPEN_VSWITCH

# Names of threads, functions, calls, interrupts and datapaths: what a report is about.
KEPT = frozenset(
    (
        *("Sample.kernel", "Target.comm", "Container.runtime", "TriggerHit.comm", "Thread.name"),
        *("SyscallStats.name", "HardIrqStats.name", "SoftIrqStats.name", "CpuTaker.comm"),
        *("CpuTaker.policy", "LockWait.name", "OwnerActivity.syscall", "Sleep.syscall"),
        *(
            "Sleep.stack",
            "FilePeer.comm",
            "ChainPart.syscall",
            "ChainThread.name",
            "ChainThread.process",
            "HeldProcess.name",
            "Waker.comm",
            "Untraced.comm",
            "Waker.kernel_stack",
            "Waker.user_stack",
        ),
        *("Scheduling.policy", "SyscallEvent.name", "StackFrame.name", "UpcallStats.name"),
        *(
            "SystemState.tracer",
            "SystemState.lock_holder",
            "Stopper.comm",
            "NewestSignal.comm",
            "Slice.name",
        ),
        *("DatapathLosses.name", "FlowLimit.datapath", "SocketOverrun.protocol"),
        "PacketLosses.unread",
        "Coverage.unread",
        "Stopwatch.name",
        *("Round.name", "OtherThread.name", "OtherThread.activity", "LogLine.thread"),
        *("RelatedLine.thread", "RelatedLine.slow", "RelatedLine.reason", "RecordingHeader.tool"),
        *("RecordingHeader.kernel", "RecordingHeader.machine", "RecordingHeader.boot_id"),
        *("RecordedTarget.comm", "LoopEvent.comm", "DpUpcall.comm", "DpUpcall.datapath"),
        *("RecvUpcall.comm", "RecvUpcall.datapath", "FlowPut.comm", "FlowPut.ufid"),
        "FlowExecute.comm",
        *("PacketCmdExecute.comm", "PortName.datapath", "RevalidatorRound.comm"),
        *(
            "FlowEvent.comm",
            "FlowEvent.reason",
            "FlowEvent.datapath",
            "FlowEvent.ufid",
            "FlowCheck.ufid",
        ),
        *("FlowEvent.layer", "OperationEvent.comm"),
    )
)

MADE_WHEN_LOOKED_AT = frozenset({"Sample.syscall_events", "Sample.timeline"})
"""Many, and nothing in them is redacted."""

_S = TypeVar("_S", bound=Struct)


def redacted(record: _S) -> _S:
    """Return a record, or a part of one, without what may be secret; a Sample is judged anew."""
    changed = cast(_S, _redacted(record))
    if isinstance(changed, Sample) and changed.verdict:
        # Not where nothing is redacted.
        from kernel_delay.analysis.verdict import judge

        return cast(_S, judge(structs.replace(changed, verdict=())))
    return changed


def _redacted(value: object) -> object:
    if isinstance(value, Struct):
        changes = {
            name: new
            for name in value.__struct_fields__
            if (new := _field(value, name)) is not getattr(value, name)
        }
        return structs.replace(value, **changes) if changes else value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(map(_redacted, value))
    return value


def _field(struct: Struct, name: str) -> object:
    value = getattr(struct, name)
    field = f"{type(struct).__name__}.{name}"
    if field in MADE_WHEN_LOOKED_AT or value is None:
        return value
    redaction = REDACTED.get(field)
    return _redacted(value) if redaction is None else _WAYS[redaction](value)


def _last_part(value: object) -> object:
    if isinstance(value, str):
        return value.rpartition("/")[2]
    return tuple(map(_last_part, cast("Sequence[object]", value)))


def _place_in_page(address: object) -> int:
    assert isinstance(address, int)
    return address and address & WITHIN_A_PAGE | WITHIN_A_PAGE + 1


_WAYS: dict[Redaction, Callable[[object], object]] = {
    Redaction.TEXT: lambda _: HIDDEN,
    Redaction.NOTHING: lambda value: None if isinstance(value, str) else (),
    Redaction.LAST_PART: _last_part,
    Redaction.NO_BYTES: lambda _: b"",
    Redaction.HEADERS: lambda value: cast(bytes, value)[:NETLINK_HEADERS_BYTES],
    Redaction.PLACE_IN_PAGE: _place_in_page,
    Redaction.NO_ADDRESS: lambda value: HIDDEN if str(value).startswith("0x") else value,
    # That happens to the whole Sample.
    Redaction.JUDGED: lambda value: value,
}
