"""Types of the extension _ovs_records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import (
    Array,
    CData,
    CType,
    Flat,
    Function,
    Null,
    Number,
    Pointer,
)

_T = TypeVar("_T")
_C = TypeVar("_C", bound=CData)

class FlowEvent(CData):
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

class OperationEvent(CData):
    event: OvsEvent
    entered_ns: int
    operation: int
    error: int
    message_len: int
    message_size: int
class OperationEventPointer(OperationEvent, Pointer[OperationEvent]): ...

class OvsControl(CData):
    lost: int
    lost_of_type: Array[int]
    by_program: Array[int]
    by_fallback: Array[int]
    results_unknown: int
    flows_before: int
    flows_untracked: int
class OvsControlPointer(OvsControl, Pointer[OvsControl]): ...

class OvsEvent(CData):
    time_ns: int
    lost: int
    type: int
    cpu: int
    tid: int
    comm: Array[bytes]
class OvsEventPointer(OvsEvent, Pointer[OvsEvent]): ...

class OvsOptions(CData):
    tgid: int
    pid_level: int
    network_inode: int
    packet_bytes: int
    key_bytes: int
    report_sent: int
    report_kept: int
    start_ms: int
class OvsOptionsPointer(OvsOptions, Pointer[OvsOptions]): ...

class ReplyEvent(CData):
    event: OvsEvent
    message_len: int
    message_size: int
class ReplyEventPointer(ReplyEvent, Pointer[ReplyEvent]): ...

class RevalidatorRound(CData):
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
    reserved: int
class RevalidatorRoundPointer(RevalidatorRound, Pointer[RevalidatorRound]): ...

class UpcallEvent(CData):
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
    reserved: int
class UpcallEventPointer(UpcallEvent, Pointer[UpcallEvent]): ...

class _FFI:
    NULL: Final[Null]
    errno: int
    def string(self, text: Array[bytes] | Pointer[bytes], maxlen: int = ..., /) -> bytes: ...
    @overload
    def unpack(  # type: ignore[overload-overlap]  # chars are not a list
        self, items: Array[bytes] | Pointer[bytes], length: int, /
    ) -> bytes: ...
    @overload
    def unpack(self, items: Array[_T] | Pointer[_T], length: int, /) -> list[_T]: ...
    def buffer(self, memory: CData, size: int = ..., /) -> Flat: ...
    def sizeof(self, kind: str | CData | CType[object], /) -> int: ...
    def gc(self, owned: _T, free: Callable[[_T], object], /) -> _T: ...
    @overload
    def typeof(self, kind: str, /) -> CType[CData]: ...
    @overload
    def typeof(self, value: _C, /) -> CType[_C]: ...
    @overload
    def new(self, kind: Literal["char[]"], init: int | bytes, /) -> Array[bytes]: ...
    @overload
    def new(self, kind: Literal["void **"], /) -> Pointer[Pointer[None]]: ...
    @overload
    def new(self, kind: Literal['int[]', 'int32_t[]', 'int64_t[]', 'size_t[]', 'uint8_t[]', 'uint32_t[]', 'uint64_t[]', 'uintptr_t[]'], init: int | Iterable[int] | Buffer = ..., /) -> Array[int]: ...
    @overload
    def new(self, kind: Literal['int *', 'int32_t *', 'int64_t *', 'size_t *', 'uint8_t *', 'uint32_t *', 'uint64_t *', 'uintptr_t *'], init: int = ..., /) -> Pointer[int]: ...
    @overload
    def new(self, kind: Literal['int **', 'int32_t **', 'int64_t **', 'size_t **', 'uint8_t **', 'uint32_t **', 'uint64_t **', 'uintptr_t **'], /) -> Pointer[Pointer[int]]: ...
    @overload
    def new(self, kind: Literal['struct flow_event *'], init: FlowEvent = ..., /) -> FlowEventPointer: ...
    @overload
    def new(self, kind: Literal['struct flow_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[FlowEvent]: ...
    @overload
    def new(self, kind: Literal['struct flow_event **'], /) -> Pointer[FlowEventPointer]: ...
    @overload
    def new(self, kind: Literal['struct operation_event *'], init: OperationEvent = ..., /) -> OperationEventPointer: ...
    @overload
    def new(self, kind: Literal['struct operation_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[OperationEvent]: ...
    @overload
    def new(self, kind: Literal['struct operation_event **'], /) -> Pointer[OperationEventPointer]: ...
    @overload
    def new(self, kind: Literal['struct ovs_control *'], init: OvsControl = ..., /) -> OvsControlPointer: ...
    @overload
    def new(self, kind: Literal['struct ovs_control[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[OvsControl]: ...
    @overload
    def new(self, kind: Literal['struct ovs_control **'], /) -> Pointer[OvsControlPointer]: ...
    @overload
    def new(self, kind: Literal['struct ovs_event *'], init: OvsEvent = ..., /) -> OvsEventPointer: ...
    @overload
    def new(self, kind: Literal['struct ovs_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[OvsEvent]: ...
    @overload
    def new(self, kind: Literal['struct ovs_event **'], /) -> Pointer[OvsEventPointer]: ...
    @overload
    def new(self, kind: Literal['struct ovs_options *'], init: OvsOptions = ..., /) -> OvsOptionsPointer: ...
    @overload
    def new(self, kind: Literal['struct ovs_options[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[OvsOptions]: ...
    @overload
    def new(self, kind: Literal['struct ovs_options **'], /) -> Pointer[OvsOptionsPointer]: ...
    @overload
    def new(self, kind: Literal['struct reply_event *'], init: ReplyEvent = ..., /) -> ReplyEventPointer: ...
    @overload
    def new(self, kind: Literal['struct reply_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[ReplyEvent]: ...
    @overload
    def new(self, kind: Literal['struct reply_event **'], /) -> Pointer[ReplyEventPointer]: ...
    @overload
    def new(self, kind: Literal['struct revalidator_round *'], init: RevalidatorRound = ..., /) -> RevalidatorRoundPointer: ...
    @overload
    def new(self, kind: Literal['struct revalidator_round[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[RevalidatorRound]: ...
    @overload
    def new(self, kind: Literal['struct revalidator_round **'], /) -> Pointer[RevalidatorRoundPointer]: ...
    @overload
    def new(self, kind: Literal['struct upcall_event *'], init: UpcallEvent = ..., /) -> UpcallEventPointer: ...
    @overload
    def new(self, kind: Literal['struct upcall_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[UpcallEvent]: ...
    @overload
    def new(self, kind: Literal['struct upcall_event **'], /) -> Pointer[UpcallEventPointer]: ...
    @overload
    def new(self, kind: CType[Array[_T]], init: int, /) -> Array[_T]: ...
    @overload
    def cast(self, kind: Literal['int', 'int32_t', 'int64_t', 'size_t', 'uint8_t', 'uint32_t', 'uint64_t', 'uintptr_t'], value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: Literal['int *', 'int32_t *', 'int64_t *', 'size_t *', 'uint8_t *', 'uint32_t *', 'uint64_t *', 'uintptr_t *'], value: int | CData, /) -> Pointer[int]: ...
    @overload
    def cast(self, kind: Literal['struct flow_event *'], value: int | CData, /) -> FlowEventPointer: ...
    @overload
    def cast(self, kind: Literal['struct operation_event *'], value: int | CData, /) -> OperationEventPointer: ...
    @overload
    def cast(self, kind: Literal['struct ovs_control *'], value: int | CData, /) -> OvsControlPointer: ...
    @overload
    def cast(self, kind: Literal['struct ovs_event *'], value: int | CData, /) -> OvsEventPointer: ...
    @overload
    def cast(self, kind: Literal['struct ovs_options *'], value: int | CData, /) -> OvsOptionsPointer: ...
    @overload
    def cast(self, kind: Literal['struct reply_event *'], value: int | CData, /) -> ReplyEventPointer: ...
    @overload
    def cast(self, kind: Literal['struct revalidator_round *'], value: int | CData, /) -> RevalidatorRoundPointer: ...
    @overload
    def cast(self, kind: Literal['struct upcall_event *'], value: int | CData, /) -> UpcallEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: Literal['int[]', 'int32_t[]', 'int64_t[]', 'size_t[]', 'uint8_t[]', 'uint32_t[]', 'uint64_t[]', 'uintptr_t[]'], memory: Buffer, /) -> Array[int]: ...
    @overload
    def from_buffer(self, kind: Literal['struct flow_event *'], memory: Buffer, /) -> FlowEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct flow_event[]'], memory: Buffer, /) -> Array[FlowEvent]: ...
    @overload
    def from_buffer(self, kind: Literal['struct operation_event *'], memory: Buffer, /) -> OperationEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct operation_event[]'], memory: Buffer, /) -> Array[OperationEvent]: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_control *'], memory: Buffer, /) -> OvsControlPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_control[]'], memory: Buffer, /) -> Array[OvsControl]: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_event *'], memory: Buffer, /) -> OvsEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_event[]'], memory: Buffer, /) -> Array[OvsEvent]: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_options *'], memory: Buffer, /) -> OvsOptionsPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct ovs_options[]'], memory: Buffer, /) -> Array[OvsOptions]: ...
    @overload
    def from_buffer(self, kind: Literal['struct reply_event *'], memory: Buffer, /) -> ReplyEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct reply_event[]'], memory: Buffer, /) -> Array[ReplyEvent]: ...
    @overload
    def from_buffer(self, kind: Literal['struct revalidator_round *'], memory: Buffer, /) -> RevalidatorRoundPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct revalidator_round[]'], memory: Buffer, /) -> Array[RevalidatorRound]: ...
    @overload
    def from_buffer(self, kind: Literal['struct upcall_event *'], memory: Buffer, /) -> UpcallEventPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct upcall_event[]'], memory: Buffer, /) -> Array[UpcallEvent]: ...
    @overload
    def from_buffer(self, kind: str, memory: Buffer, /) -> Any: ...
    @overload
    def addressof(self, struct: FlowEvent, field: Literal['event'], /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: FlowEvent, field: Literal['result', 'reason', 'in_sweep', 'is_new', 'created_ms', 'used_ms', 'n_packets', 'n_bytes', 'pmd_id', 'key_len', 'mask_len', 'key_size', 'mask_size', 'reserved'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[FlowEvent], index: int, /) -> FlowEventPointer: ...
    @overload
    def addressof(self, struct: FlowEvent, /) -> FlowEventPointer: ...
    @overload
    def addressof(self, struct: OperationEvent, field: Literal['event'], /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: OperationEvent, field: Literal['entered_ns', 'operation', 'error', 'message_len', 'message_size'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[OperationEvent], index: int, /) -> OperationEventPointer: ...
    @overload
    def addressof(self, struct: OperationEvent, /) -> OperationEventPointer: ...
    @overload
    def addressof(self, struct: OvsControl, field: Literal['lost', 'results_unknown', 'flows_before', 'flows_untracked'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[OvsControl], index: int, /) -> OvsControlPointer: ...
    @overload
    def addressof(self, struct: OvsControl, /) -> OvsControlPointer: ...
    @overload
    def addressof(self, struct: OvsEvent, field: Literal['time_ns', 'lost', 'type', 'cpu', 'tid'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[OvsEvent], index: int, /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: OvsEvent, /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: OvsOptions, field: Literal['tgid', 'pid_level', 'network_inode', 'packet_bytes', 'key_bytes', 'report_sent', 'report_kept', 'start_ms'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[OvsOptions], index: int, /) -> OvsOptionsPointer: ...
    @overload
    def addressof(self, struct: OvsOptions, /) -> OvsOptionsPointer: ...
    @overload
    def addressof(self, struct: ReplyEvent, field: Literal['event'], /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: ReplyEvent, field: Literal['message_len', 'message_size'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[ReplyEvent], index: int, /) -> ReplyEventPointer: ...
    @overload
    def addressof(self, struct: ReplyEvent, /) -> ReplyEventPointer: ...
    @overload
    def addressof(self, struct: RevalidatorRound, field: Literal['event'], /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: RevalidatorRound, field: Literal['udpif', 'start_ns', 'previous_stop_ns', 'n_flows', 'revalidated', 'off_cpu_ns', 'runnable_ns', 'dump_duration_ms', 'poll_wait_ms', 'max_n_flows', 'avg_n_flows', 'flow_limit', 'flow_limit_before', 'is_udpif', 'account_known', 'reserved'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[RevalidatorRound], index: int, /) -> RevalidatorRoundPointer: ...
    @overload
    def addressof(self, struct: RevalidatorRound, /) -> RevalidatorRoundPointer: ...
    @overload
    def addressof(self, struct: UpcallEvent, field: Literal['event'], /) -> OvsEventPointer: ...
    @overload
    def addressof(self, struct: UpcallEvent, field: Literal['kind', 'in_port', 'recirc_id', 'error', 'packet_len', 'linear_len', 'key_len', 'packet_size', 'key_size', 'reserved'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, array: Array[UpcallEvent], index: int, /) -> UpcallEventPointer: ...
    @overload
    def addressof(self, struct: UpcallEvent, /) -> UpcallEventPointer: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: CData, field: str, /) -> Any: ...

class _Lib:
    DATAPATH_NAME_LENGTH: Final[int]
    EVENT_DP_UPCALL: Final[int]
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
    SMALL_MESSAGE: Final[int]
    TASK_COMM_LEN: Final[int]
    UKEY_DELETE: Final[int]
    UKEY_KEEP: Final[int]
    UKEY_MODIFY: Final[int]
    UPCALL_ACTION: Final[int]
    UPCALL_MISS: Final[int]

ffi: _FFI
lib: _Lib
