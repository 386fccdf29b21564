"""Types of the extension _ovs_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class FlowCheck(Struct[FlowCheckPointer]):
    ns: int
    waited_ns: int
    n_packets: int
    created_ms: int
    ufid: Array[int]
    result: int
    reserved: int
class FlowCheckPointer(FlowCheck, Pointer[FlowCheck]): ...

class FlowChecks(Struct[FlowChecksPointer]):
    event: OvsEvent
    udpif: int
    start_ns: int
    n_checks: int
    checks_ns: int
    waited_ns: int
    tid: int
    waits_known: int
    slowest: Array[FlowCheck]
class FlowChecksPointer(FlowChecks, Pointer[FlowChecks]): ...

class FlowEvent(Struct[FlowEventPointer]):
    event: OvsEvent
    datapath: Array[bytes]
    layer: Array[bytes]
    ufid: Array[int]
    result: int
    reason: int
    in_sweep: int
    is_new: int
    created_ms: int
    used_ms: int
    n_packets: int
    n_bytes: int
    pmd_id: int
    key_len: int
    mask_len: int
    key_size: int
    mask_size: int
    reserved: int
class FlowEventPointer(FlowEvent, Pointer[FlowEvent]): ...

class OperationEvent(Struct[OperationEventPointer]):
    event: OvsEvent
    entered_ns: int
    operation: int
    error: int
    message_len: int
    message_size: int
class OperationEventPointer(OperationEvent, Pointer[OperationEvent]): ...

class OvsControl(Struct[OvsControlPointer]):
    lost: int
    lost_of_type: Array[int]
    by_program: Array[int]
    by_fallback: Array[int]
    results_unknown: int
    flows_before: int
    flows_untracked: int
class OvsControlPointer(OvsControl, Pointer[OvsControl]): ...

class OvsEvent(Struct[OvsEventPointer]):
    time_ns: int
    lost: int
    type: int
    cpu: int
    tid: int
    comm: Array[bytes]
class OvsEventPointer(OvsEvent, Pointer[OvsEvent]): ...

class OvsOptions(Struct[OvsOptionsPointer]):
    tgid: int
    pid_level: int
    network_inode: int
    packet_bytes: int
    key_bytes: int
    report_sent: int
    report_kept: int
    time_checks: int
    start_ms: int
class OvsOptionsPointer(OvsOptions, Pointer[OvsOptions]): ...

class ReplyEvent(Struct[ReplyEventPointer]):
    event: OvsEvent
    message_len: int
    message_size: int
class ReplyEventPointer(ReplyEvent, Pointer[ReplyEvent]): ...

class RevalidatorRound(Struct[RevalidatorRoundPointer]):
    event: OvsEvent
    datapath: Array[bytes]
    udpif: int
    start_ns: int
    previous_stop_ns: int
    n_flows: int
    dumped: Array[int]
    swept: Array[int]
    revalidated: int
    off_cpu_ns: int
    runnable_ns: int
    dump_duration_ms: int
    poll_wait_ms: int
    max_n_flows: int
    avg_n_flows: int
    flow_limit: int
    flow_limit_before: int
    is_udpif: int
    account_known: int
    removed: int
class RevalidatorRoundPointer(RevalidatorRound, Pointer[RevalidatorRound]): ...

class UpcallEvent(Struct[UpcallEventPointer]):
    event: OvsEvent
    datapath: Array[bytes]
    device: Array[bytes]
    kind: int
    in_port: int
    recirc_id: int
    error: int
    packet_len: int
    linear_len: int
    key_len: int
    packet_size: int
    key_size: int
    has_ufid: int
    ufid: Array[int]
class UpcallEventPointer(UpcallEvent, Pointer[UpcallEvent]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct flow_checks *'], init: FlowChecks = ..., /) -> FlowChecksPointer: ...
    @overload
    def new(self, kind: Literal['struct revalidator_round *'], init: RevalidatorRound = ..., /) -> RevalidatorRoundPointer: ...
    @overload
    def new(self, kind: Literal["char[]"], init: int | bytes, /) -> Array[bytes]: ...
    @overload
    def new(self, kind: Literal["void **"], /) -> Pointer[Pointer[None]]: ...
    @overload
    def new(
        self, kind: IntegerArray, init: int | Iterable[int] | Buffer = ..., /
    ) -> Array[int]: ...
    @overload
    def new(self, kind: IntegerPointer, init: int = ..., /) -> Pointer[int]: ...
    @overload
    def new(self, kind: IntegerPointerPointer, /) -> Pointer[Pointer[int]]: ...
    @overload
    def new(self, kind: CType[Array[_T]], init: int, /) -> Array[_T]: ...
    @overload
    def cast(self, kind: Literal['struct ovs_options *'], value: int | CData, /) -> OvsOptionsPointer: ...
    @overload
    def cast(self, kind: Integer, value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: IntegerPointer, value: int | CData, /) -> Pointer[int]: ...
    @overload
    def from_buffer(self, kind: Literal['struct flow_checks *'], memory: Buffer, /) -> FlowChecksPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct flow_event *'], memory: Buffer, /) -> FlowEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct operation_event *'], memory: Buffer, /) -> OperationEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_control *'], memory: Buffer, /) -> OvsControlPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_event *'], memory: Buffer, /) -> OvsEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct reply_event *'], memory: Buffer, /) -> ReplyEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct revalidator_round *'], memory: Buffer, /) -> RevalidatorRoundPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct upcall_event *'], memory: Buffer, /) -> UpcallEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...

class _Lib:
    DATAPATH_NAME_LENGTH: Final[int]
    EVENT_DP_UPCALL: Final[int]
    EVENT_FLOW_CHECKS: Final[int]
    EVENT_FLOW_EXECUTE: Final[int]
    EVENT_FLOW_PUT: Final[int]
    EVENT_FLOW_RESULT: Final[int]
    EVENT_OPERATION: Final[int]
    EVENT_PACKET_CMD_EXECUTE: Final[int]
    EVENT_POLL_BLOCK: Final[int]
    EVENT_PORT: Final[int]
    EVENT_RECV_UPCALL: Final[int]
    EVENT_REPLY: Final[int]
    EVENT_REVALIDATOR_ROUND: Final[int]
    EVENT_RUN_START: Final[int]
    IFNAMSIZ: Final[int]
    LARGEST_MESSAGE: Final[int]
    LARGE_MESSAGE: Final[int]
    LAYER_LENGTH: Final[int]
    OPERATION_FLOW_DEL: Final[int]
    OPERATION_FLOW_GET: Final[int]
    OPERATION_FLOW_NEW: Final[int]
    OPERATION_FLOW_SET: Final[int]
    OPERATION_PACKET_EXECUTE: Final[int]
    OVS_EVENT_TYPES: Final[int]
    REVAL_RESULTS: Final[int]
    REVAL_RESULT_SLOTS: Final[int]
    SLOWEST_CHECKS: Final[int]
    SMALL_MESSAGE: Final[int]
    TASK_COMM_LEN: Final[int]
    UKEY_DELETE: Final[int]
    UKEY_KEEP: Final[int]
    UKEY_MODIFY: Final[int]
    UPCALL_ACTION: Final[int]
    UPCALL_MISS: Final[int]

ffi: _FFI
lib: _Lib
