"""Types of the extension _records; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class Account(Struct[AccountPointer]):
    first: ThreadState
    not_alive_ns: int
    exit_ns: int
    mode_ns: Array[int]
    state_ns: Array[Array[int]]
    hard_irq_ns: Array[int]
    soft_irq_ns: Array[int]
    tool_ns: int
    faults: int
    signals: int
    signal: int
    signal_code: int
    signal_sender: int
    other_tasks_ns: int
    unknown_tasks_ns: int
    other_owners_ns: int
    short_sleeps: int
    short_sleeps_ns: int
    other_sleeps: int
    other_sleeps_ns: int
    run: Histogram
    ready: Histogram
class AccountPointer(Account, Pointer[Account]): ...

class CodeRange(Struct[CodeRangePointer]):
    start: int
    end: int
class CodeRangePointer(CodeRange, Pointer[CodeRange]): ...

class Control(Struct[ControlPointer]):
    epoch: int
    threads_registered: int
    windows_kept: int
    windows_done: int
    missed_hits: int
    missed_stacks: int
    missed_syscall_events: int
    missed_calls: int
    missed_wakeups: int
    missed_switches: int
    missed_others_switches: int
    untraced: int
    untraced_switches: int
    untraced_seen: int
    missed_soft_irqs: int
    missed_threads: int
    clamped_lengths: int
    entries_taken_over: int
    exits_taken_over: int
    stop_signal: int
    stop_sender: int
    stop_process: int
    tracer: int
    other_stops_ns: int
    signal_stop_ns: int
    tracer_stop_ns: int
    stop_end_ns: int
    traced: int
    unused: int
    tracer_comm: Array[bytes]
    long_rounds: int
    suppressed_rounds: int
    missed_rounds: int
    missed_ends: int
    missed_totals: int
    missed_chain_events: int
    round_gap_ns: int
    round_gap_longest_ns: int
    rounds_in_gap: int
    without_timeline: int
    returns_hooked_ns: int
    rings: Array[RingPosition]
    windows: Array[Window]
class ControlPointer(Control, Pointer[Control]): ...

class DumpedThread(Struct[DumpedThreadPointer]):
    identity: int
    tid: int
    comm: Array[bytes]
    kernel_worker: int
    on_cpu: int
    returned: int
    woken: int
    ran: int
    uprobes: int
    own_tid: int
    process: int
    policy: int
    static_prio: int
    rt_priority: int
    made_ns: int
    times: TaskTimes
    now: ThreadState
    running: Slice
class DumpedThreadPointer(DumpedThread, Pointer[DumpedThread]): ...

class EndedName(Struct[EndedNamePointer]):
    threads: int
    after_start_ns: int
    thread: ThreadRecord
    syscalls: SyscallRecordPointer
    hard_irqs: HardIrqRecordPointer
    owners: OwnerRecordPointer
    sleeps: SleepRecordPointer
    syscall_count: int
    hard_irq_count: int
    owner_count: int
    sleep_count: int
class EndedNamePointer(EndedName, Pointer[EndedName]): ...

class EndedThreads(Struct[EndedThreadsPointer]): ...
class EndedThreadsPointer(EndedThreads, Pointer[EndedThreads]): ...

class EventStacks(Struct[EventStacksPointer]):
    kernel_frames: int
    user_bytes: int
    kernel: Array[int]
    stack_end: int
    pages: Array[int]
    registers: Array[int]
class EventStacksPointer(EventStacks, Pointer[EventStacks]): ...

class HardIrqRecord(Struct[HardIrqRecordPointer]):
    number: int
    thread: int
    next: int
    action: int
    name: Array[bytes]
    runs: Intervals
class HardIrqRecordPointer(HardIrqRecord, Pointer[HardIrqRecord]): ...

class Histogram(Struct[HistogramPointer]):
    counts: Array[int]
class HistogramPointer(Histogram, Pointer[Histogram]): ...

class Intervals(Struct[IntervalsPointer]):
    count: int
    total_ns: int
    min_ns: int
    max_ns: int
class IntervalsPointer(Intervals, Pointer[Intervals]): ...

class LargeFrame(Struct[LargeFramePointer]):
    start: int
    end: int
    size: int
    function: int
class LargeFramePointer(LargeFrame, Pointer[LargeFrame]): ...

class LargeFrames(Struct[LargeFramesPointer]):
    frame_count: int
    code_count: int
    filter: Array[int]
    frames: Array[LargeFrame]
    code: Array[CodeRange]
class LargeFramesPointer(LargeFrames, Pointer[LargeFrames]): ...

class NamespaceAnswer(Struct[NamespaceAnswerPointer]):
    tgid: int
    pid_level: int
class NamespaceAnswerPointer(NamespaceAnswer, Pointer[NamespaceAnswer]): ...

class NamespaceQuery(Struct[NamespaceQueryPointer]):
    pid: int
    namespace_inode: int
class NamespaceQueryPointer(NamespaceQuery, Pointer[NamespaceQuery]): ...

class Options(Struct[OptionsPointer]):
    tgid: int
    pid_level: int
    thread_records: int
    syscall_records: int
    hard_irq_records: int
    owner_records: int
    sleep_records: int
    freed_slots: int
    slices: int
    cpus: int
    timeline_slices: int
    trigger_options: int
    accounting: int
    rounds: int
    round_ns: int
    round_gap_ns: int
    off_cpu_round_ns: int
    off_cpu_name: int
    off_cpu_name_mask: int
    window_ns: int
    interval_ns: int
    shortest_ns: int
    window_count: int
    sleep_ns: int
    contexts_distance: int
    event_ns: int
    other_events: int
    stack_mode: int
    walks_stacks: int
    stack_bytes: int
    event_bytes: int
    waker_stacks: int
    totals: int
    children: int
    freezer: int
    guests: int
    round_timelines: int
    polls_only: int
    chains: int
    syscall_flags: Array[Array[int]]
class OptionsPointer(Options, Pointer[Options]): ...

class OwnerActivity(Struct[OwnerActivityPointer]):
    known_ns: int
    blocked_ns: int
    ready_ns: int
    held_ns: int
    syscall: int
    vote_ns: int
    stack: int
    unused: int
class OwnerActivityPointer(OwnerActivity, Pointer[OwnerActivity]): ...

class OwnerRecord(Struct[OwnerRecordPointer]):
    number: int
    thread: int
    next: int
    lock: int
    info: TaskInfo
    waits: int
    wait_ns: int
    total_ns: int
    owner: OwnerActivity
class OwnerRecordPointer(OwnerRecord, Pointer[OwnerRecord]): ...

class ReportedTotals(Struct[ReportedTotalsPointer]):
    head: ReportedTotalsHead
    totals: ThreadTotals
    state_changes: int
class ReportedTotalsPointer(ReportedTotals, Pointer[ReportedTotals]): ...

class ReportedTotalsHead(Struct[ReportedTotalsHeadPointer]):
    identity: int
    now_ns: int
    tid: int
    kernel_worker: int
    comm: Array[bytes]
    now: ThreadState
class ReportedTotalsHeadPointer(ReportedTotalsHead, Pointer[ReportedTotalsHead]): ...

class RingPosition(Struct[RingPositionPointer]):
    head: int
    tail: int
    full: int
    freed_epoch: int
    freed: int
    freed_taken: int
    notice_head: int
    notice_freed: int
class RingPositionPointer(RingPosition, Pointer[RingPosition]): ...

class RoundNotice(Struct[RoundNoticePointer]):
    kind: int
    identity: int
    record: int
    round: int
    start_ns: int
    stop_ns: int
    timeline: int
    running_since_ns: int
    begun: TaskTimes
    ended: TaskTimes
    suppressed: int
    unsplit_ns: int
    tid: int
    unused: int
    comm: Array[bytes]
    longest_ns: int
    lengths: Array[int]
class RoundNoticePointer(RoundNotice, Pointer[RoundNotice]): ...

class RoundTimeline(Struct[RoundTimelinePointer]):
    number: int
    thread: int
    reported: int
    modes_before: int
class RoundTimelinePointer(RoundTimeline, Pointer[RoundTimeline]): ...

class RunQueue(Struct[RunQueuePointer]):
    slices: int
    switches: int
    waiting: int
    moved: int
    next: int
    behind_ns: int
    unused: Array[int]
class RunQueuePointer(RunQueue, Pointer[RunQueue]): ...

class SleepRecord(Struct[SleepRecordPointer]):
    number: int
    thread: int
    next: int
    syscall: int
    file: int
    stack: int
    waker_stack: int
    uninterruptible: int
    waker_kind: int
    unused: int
    waker: TaskInfo
    sleeps: int
    total_ns: int
    short_ns: int
    max_ns: int
class SleepRecordPointer(SleepRecord, Pointer[SleepRecord]): ...

class SleepStack(Struct[SleepStackPointer]):
    hash: int
    written: int
    unused: int
    frames: Array[int]
class SleepStackPointer(SleepStack, Pointer[SleepStack]): ...

class Slice(Struct[SlicePointer]):
    number: int
    end_ns: int
    prev: TaskInfo
    group: int
    known: int
    throttled: int
class SlicePointer(Slice, Pointer[Slice]): ...

class SyscallEvent(Struct[SyscallEventPointer]):
    entry_ns: int
    exit_ns: int
    off_cpu_ns: int
    value: int
    syscall: int
    tid: int
    stack_mode: int
class SyscallEventPointer(SyscallEvent, Pointer[SyscallEvent]): ...

class SyscallRecord(Struct[SyscallRecordPointer]):
    number: int
    thread: int
    syscall: int
    calls: Intervals
    without_entry: int
    across: int
    timed_out: int
    boundary_ns: int
    state_ns: Array[int]
    lengths: Histogram
class SyscallRecordPointer(SyscallRecord, Pointer[SyscallRecord]): ...

class SyscallTotals(Struct[SyscallTotalsPointer]):
    calls: int
    total_ns: int
class SyscallTotalsPointer(SyscallTotals, Pointer[SyscallTotals]): ...

class TaskInfo(Struct[TaskInfoPointer]):
    task: int
    tid: int
    process: int
    policy: int
    rt_priority: int
    nice: int
    kernel_thread: int
    comm: Array[bytes]
class TaskInfoPointer(TaskInfo, Pointer[TaskInfo]): ...

class TaskTimes(Struct[TaskTimesPointer]):
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    migrations: int
    steal_ns: int
class TaskTimesPointer(TaskTimes, Pointer[TaskTimes]): ...

class ThreadRecord(Struct[ThreadRecordPointer]):
    number: int
    epoch: int
    identity: int
    tid: int
    exited: int
    kernel_worker: int
    comm: Array[bytes]
    own_tid: int
    process: int
    hard_irqs: int
    owner: int
    owners: Array[int]
    sleeps: Array[int]
    long_poll: Intervals
    run: Intervals
    ready: Intervals
    stopped: Intervals
    soft_irqs: Array[Intervals]
    account: Account
class ThreadRecordPointer(ThreadRecord, Pointer[ThreadRecord]): ...

class ThreadRounds(Struct[ThreadRoundsPointer]):
    identity: int
    round: int
    start_ns: int
    stop_ns: int
    tid: int
    own_tid: int
    comm: Array[bytes]
    ran_ns: int
    runnable_ns: int
    system_ns: int
    now: ThreadState
    longest_ns: int
    lengths: Array[int]
class ThreadRoundsPointer(ThreadRounds, Pointer[ThreadRounds]): ...

class ThreadState(Struct[ThreadStatePointer]):
    epoch: int
    syscall: int
    mode_since_ns: int
    state_since_ns: int
    state_changes: int
    ready_since_ns: int
    frozen_since_ns: int
    first_slice: int
    blocked_until_ns: int
    lock: int
    futex_owner: int
    wait_cpu: int
    mode: int
    state: int
    sleep_stack: int
    uninterruptible: int
    sleep_file: int
    sleep_record: int
    group: int
    hard_irq_since_ns: int
    soft_irq_since_ns: int
    soft_irq_lost_ns: int
class ThreadStatePointer(ThreadState, Pointer[ThreadState]): ...

class ThreadTotals(Struct[ThreadTotalsPointer]):
    since_ns: int
    not_alive_ns: int
    exit_ns: int
    mode_ns: Array[int]
    state_ns: Array[Array[int]]
    hard_irq_ns: Array[int]
    soft_irq_ns: Array[int]
    ready_ns: int
    ready_lengths: Array[int]
    round_ns: int
    round_lengths: Array[int]
class ThreadTotalsPointer(ThreadTotals, Pointer[ThreadTotals]): ...

class TimelineRing(Struct[TimelineRingPointer]):
    head: int
    lost: Array[int]
    unused: Array[int]
    tail: int
    unused_behind: Array[int]
class TimelineRingPointer(TimelineRing, Pointer[TimelineRing]): ...

class TimelineSlice(Struct[TimelineSlicePointer]):
    since_ns: int
    until_ns: int
    thread: int
    what: int
    number: int
    order: int
    kind: int
    mode: int
class TimelineSlicePointer(TimelineSlice, Pointer[TimelineSlice]): ...

class TriggerHit(Struct[TriggerHitPointer]):
    task: int
    tid: int
    comm: Array[bytes]
class TriggerHitPointer(TriggerHit, Pointer[TriggerHit]): ...

class UnwindEntry(Struct[UnwindEntryPointer]):
    words: Array[int]
class UnwindEntryPointer(UnwindEntry, Pointer[UnwindEntry]): ...

class UnwindHeader(Struct[UnwindHeaderPointer]):
    generation: int
    start_stack: int
    unused: int
    range_count: int
    first_rule: int
class UnwindHeaderPointer(UnwindHeader, Pointer[UnwindHeader]): ...

class UnwindRange(Struct[UnwindRangePointer]):
    start: int
    end: int
    bias: int
    first_row: int
    row_entries: int
class UnwindRangePointer(UnwindRange, Pointer[UnwindRange]): ...

class UnwindRule(Struct[UnwindRulePointer]):
    cfa_offset: int
    rbp_offset: int
    cfa: int
    rbp: int
class UnwindRulePointer(UnwindRule, Pointer[UnwindRule]): ...

class WakerStack(Struct[WakerStackPointer]):
    hash: int
    written: int
    process: int
    stacks: EventStacks
    content: Array[int]
class WakerStackPointer(WakerStack, Pointer[WakerStack]): ...

class Window(Struct[WindowPointer]):
    start_ns: int
    stop_ns: int
    start_hit: TriggerHit
    stop_hit: TriggerHit
class WindowPointer(Window, Pointer[Window]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct control *'], init: Control = ..., /) -> ControlPointer: ...
    @overload
    def new(self, kind: Literal['struct dumped_thread *'], init: DumpedThread = ..., /) -> DumpedThreadPointer: ...
    @overload
    def new(self, kind: Literal['struct hard_irq_record *'], init: HardIrqRecord = ..., /) -> HardIrqRecordPointer: ...
    @overload
    def new(self, kind: Literal['struct hard_irq_record[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[HardIrqRecord]: ...
    @overload
    def new(self, kind: Literal['struct options *'], init: Options = ..., /) -> OptionsPointer: ...
    @overload
    def new(self, kind: Literal['struct owner_record *'], init: OwnerRecord = ..., /) -> OwnerRecordPointer: ...
    @overload
    def new(self, kind: Literal['struct ring_position *'], init: RingPosition = ..., /) -> RingPositionPointer: ...
    @overload
    def new(self, kind: Literal['struct sleep_record *'], init: SleepRecord = ..., /) -> SleepRecordPointer: ...
    @overload
    def new(self, kind: Literal['struct sleep_record[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[SleepRecord]: ...
    @overload
    def new(self, kind: Literal['struct slice[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[Slice]: ...
    @overload
    def new(self, kind: Literal['struct syscall_record *'], init: SyscallRecord = ..., /) -> SyscallRecordPointer: ...
    @overload
    def new(self, kind: Literal['struct thread_record *'], init: ThreadRecord = ..., /) -> ThreadRecordPointer: ...
    @overload
    def new(self, kind: Literal['struct timeline_slice *'], init: TimelineSlice = ..., /) -> TimelineSlicePointer: ...
    @overload
    def new(self, kind: Literal['struct timeline_slice[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[TimelineSlice]: ...
    @overload
    def new(self, kind: Literal['struct unwind_entry[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[UnwindEntry]: ...
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
    def cast(self, kind: Literal['struct options *'], value: int | CData, /) -> OptionsPointer: ...
    @overload
    def cast(self, kind: Literal['struct unwind_header *'], value: int | CData, /) -> UnwindHeaderPointer: ...
    @overload
    def cast(self, kind: Literal['struct unwind_range *'], value: int | CData, /) -> UnwindRangePointer: ...
    @overload
    def cast(self, kind: Integer, value: int | CData, /) -> Number: ...
    @overload
    def cast(self, kind: IntegerPointer, value: int | CData, /) -> Pointer[int]: ...
    @overload
    def from_buffer(self, kind: Literal['struct control *'], memory: Buffer, /) -> ControlPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct dumped_thread[]'], memory: Buffer, /) -> Array[DumpedThread]: ...
    @overload
    def from_buffer(self, kind: Literal['struct hard_irq_record[]'], memory: Buffer, /) -> Array[HardIrqRecord]: ...
    @overload
    def from_buffer(self, kind: Literal['struct large_frames *'], memory: Buffer, /) -> LargeFramesPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct namespace_answer *'], memory: Buffer, /) -> NamespaceAnswerPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct namespace_query *'], memory: Buffer, /) -> NamespaceQueryPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct owner_record[]'], memory: Buffer, /) -> Array[OwnerRecord]: ...
    @overload
    def from_buffer(self, kind: Literal['struct reported_totals *'], memory: Buffer, /) -> ReportedTotalsPointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct reported_totals[]'], memory: Buffer, /) -> Array[ReportedTotals]: ...
    @overload
    def from_buffer(self, kind: Literal['struct round_notice *'], memory: Buffer, /) -> RoundNoticePointer: ...
    @overload
    def from_buffer(self, kind: Literal['struct round_timeline[]'], memory: Buffer, /) -> Array[RoundTimeline]: ...
    @overload
    def from_buffer(self, kind: Literal['struct run_queue[]'], memory: Buffer, /) -> Array[RunQueue]: ...
    @overload
    def from_buffer(self, kind: Literal['struct sleep_record[]'], memory: Buffer, /) -> Array[SleepRecord]: ...
    @overload
    def from_buffer(self, kind: Literal['struct slice[]'], memory: Buffer, /) -> Array[Slice]: ...
    @overload
    def from_buffer(self, kind: Literal['struct syscall_record[]'], memory: Buffer, /) -> Array[SyscallRecord]: ...
    @overload
    def from_buffer(self, kind: Literal['struct thread_record[]'], memory: Buffer, /) -> Array[ThreadRecord]: ...
    @overload
    def from_buffer(self, kind: Literal['struct thread_rounds[]'], memory: Buffer, /) -> Array[ThreadRounds]: ...
    @overload
    def from_buffer(self, kind: Literal['struct waker_stack[]'], memory: Buffer, /) -> Array[WakerStack]: ...
    @overload
    def from_buffer(self, kind: Literal["char[]"], memory: Buffer, /) -> Array[bytes]: ...
    @overload
    def from_buffer(self, kind: IntegerArray, memory: Buffer, /) -> Array[int]: ...
    @overload
    def addressof(self, struct: Account, field: Literal['first'], /) -> ThreadStatePointer: ...
    @overload
    def addressof(self, struct: Control, field: Literal['epoch', 'windows_done', 'missed_hits', 'missed_stacks', 'missed_syscall_events', 'missed_calls', 'missed_wakeups', 'missed_switches', 'missed_others_switches', 'untraced', 'untraced_switches', 'untraced_seen', 'missed_soft_irqs', 'missed_threads', 'clamped_lengths', 'entries_taken_over', 'exits_taken_over', 'long_rounds', 'suppressed_rounds', 'missed_rounds', 'missed_ends', 'missed_totals', 'missed_chain_events', 'without_timeline', 'returns_hooked_ns'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: DumpedThread, field: Literal['process'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: DumpedThread, field: Literal['running'], /) -> SlicePointer: ...
    @overload
    def addressof(self, struct: EndedName, field: Literal['threads'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: EndedName, field: Literal['sleeps'], /) -> Pointer[SleepRecordPointer]: ...
    @overload
    def addressof(self, struct: Options, field: Literal['thread_records', 'freed_slots', 'slices', 'waker_stacks', 'round_timelines'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: ReportedTotals, field: Literal['head'], /) -> ReportedTotalsHeadPointer: ...
    @overload
    def addressof(self, struct: RingPosition, field: Literal['head', 'tail', 'full'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: RoundNotice, field: Literal['stop_ns', 'timeline'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: RunQueue, field: Literal['slices', 'switches'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: SleepRecord, field: Literal['sleeps'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: SyscallRecord, field: Literal['calls'], /) -> IntervalsPointer: ...
    @overload
    def addressof(self, struct: SyscallTotals, field: Literal['calls'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: TaskInfo, field: Literal['process'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: ThreadRecord, field: Literal['epoch', 'process'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: ThreadRecord, field: Literal['long_poll'], /) -> IntervalsPointer: ...
    @overload
    def addressof(self, struct: ThreadRounds, field: Literal['stop_ns'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: ThreadState, field: Literal['epoch', 'sleep_record'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: TimelineRing, field: Literal['head', 'tail'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: WakerStack, field: Literal['process'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: Window, field: Literal['stop_ns'], /) -> Pointer[int]: ...
    @overload
    def addressof(self, struct: Struct[_P], /) -> _P: ...
    @overload
    def addressof(self, array: Elements[Struct[_P]], index: int, /) -> _P: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...

class _Lib:
    CFA_AT_RBP: Final[int]
    CFA_FRAME_POINTER: Final[int]
    CFA_OUTERMOST: Final[int]
    CFA_PLT: Final[int]
    CFA_RBP: Final[int]
    CFA_RSP: Final[int]
    CFA_UNKNOWN: Final[int]
    CODE_RANGES: Final[int]
    COMM_LENGTH: Final[int]
    COMPAT_SYSCALL: Final[int]
    DIRECT_SYSCALLS: Final[int]
    ENDED_NAMES: Final[int]
    ENDED_PARTS: Final[int]
    FLAGGED_SYSCALLS: Final[int]
    FRAME_FILTER_WORDS: Final[int]
    HARD_IRQS_PER_THREAD: Final[int]
    HARD_IRQ_RING: Final[int]
    HISTOGRAM_BUCKETS: Final[int]
    IRQ_NAME_LENGTH: Final[int]
    IRQ_VECTORS: Final[int]
    KERNEL_FRAMES: Final[int]
    LARGE_FRAME: Final[int]
    LARGE_FRAMES: Final[int]
    MODE_FAULT: Final[int]
    MODE_SLOTS: Final[int]
    MODE_SYSCALL: Final[int]
    MODE_UNKNOWN: Final[int]
    MODE_USER: Final[int]
    NO_FRAME: Final[int]
    NO_FREED_EPOCH: Final[int]
    NO_STEAL_CLOCK: Final[int]
    NO_SYSCALL: Final[int]
    OFF_CPU_UNKNOWN: Final[int]
    OTHER_SYSCALLS: Final[int]
    OWNERS_PER_LIST: Final[int]
    OWNERS_SEARCHED: Final[int]
    OWNER_LISTS: Final[int]
    OWNER_RING: Final[int]
    PID_LEVELS: Final[int]
    RBP_AT_CFA: Final[int]
    RBP_AT_RBP: Final[int]
    RBP_SAME: Final[int]
    RBP_UNKNOWN: Final[int]
    RECORD_RINGS: Final[int]
    REGISTERS: Final[int]
    RING_SLOTS: Final[int]
    ROUNDS_BY_POLL: Final[int]
    ROUNDS_BY_TRIGGER: Final[int]
    ROUND_IS_CUT_SHORT: Final[int]
    ROUND_IS_LONG: Final[int]
    ROUND_IS_OFF_CPU: Final[int]
    ROUND_SLOTS: Final[int]
    ROUND_THREAD_ENDED: Final[int]
    SEVERAL_LOCKS: Final[int]
    SLEEPS_ON_FILES: Final[int]
    SLEEPS_PER_LIST: Final[int]
    SLEEPS_SEARCHED: Final[int]
    SLEEP_FRAMES: Final[int]
    SLEEP_LISTS: Final[int]
    SLEEP_RING: Final[int]
    SLEEP_STACKS: Final[int]
    SLEEP_STACKS_TRIED: Final[int]
    SLICES_AT_ONCE: Final[int]
    SLICE_CALL: Final[int]
    SLICE_CLASSES: Final[int]
    SLICE_COMPAT_CALL: Final[int]
    SLICE_FAULT: Final[int]
    SLICE_HARD_IRQ: Final[int]
    SLICE_LOST_MODES: Final[int]
    SLICE_LOST_STATES: Final[int]
    SLICE_OF_INTERRUPT: Final[int]
    SLICE_OF_MODE: Final[int]
    SLICE_OF_STATE: Final[int]
    SLICE_PROGRAM: Final[int]
    SLICE_SOFT_IRQ: Final[int]
    SLICE_UNKNOWN_MODE: Final[int]
    SLICE_UNSEEN_CALL: Final[int]
    SOFT_IRQ_VECTORS: Final[int]
    STACK_BYTES_MAX: Final[int]
    STACK_COPY: Final[int]
    STACK_FRAME_POINTERS: Final[int]
    STACK_NONE: Final[int]
    STACK_PAGE: Final[int]
    STACK_PAGES_SEARCHED: Final[int]
    STACK_PAGES_WORDS: Final[int]
    STACK_WALK: Final[int]
    STATE_BLOCKED: Final[int]
    STATE_FROZEN: Final[int]
    STATE_GUEST: Final[int]
    STATE_NOT_ALIVE: Final[int]
    STATE_READY_PREEMPTED: Final[int]
    STATE_READY_WOKEN: Final[int]
    STATE_RUNNING: Final[int]
    STATE_SLOTS: Final[int]
    STATE_STOPPED: Final[int]
    STATE_THROTTLED: Final[int]
    STATE_UNKNOWN: Final[int]
    SYSCALL_ENDS_HANDLER: Final[int]
    SYSCALL_HAS_EVENTS: Final[int]
    SYSCALL_HAS_FILE: Final[int]
    SYSCALL_IS_FUTEX: Final[int]
    SYSCALL_IS_POLL: Final[int]
    SYSCALL_MAY_POLL: Final[int]
    SYSCALL_POLLS_ARRAY: Final[int]
    SYSCALL_RESTARTS: Final[int]
    SYSCALL_RING: Final[int]
    SYSCALL_TABLES: Final[int]
    SYSCALL_TOTALS: Final[int]
    TARGET_WORDS: Final[int]
    TASKS_PER_LIST: Final[int]
    THREAD_RING: Final[int]
    TIMELINE_RING: Final[int]
    TRIGGER_SAME_THREAD: Final[int]
    TRIGGER_STOP: Final[int]
    UNWIND_RANGES: Final[int]
    UNWIND_WORDS: Final[int]
    UPROBES_NONE: Final[int]
    UPROBES_SET: Final[int]
    UPROBES_UNKNOWN: Final[int]
    USER_FRAMES: Final[int]
    WAKER_HARD_IRQ: Final[int]
    WAKER_SOFT_IRQ: Final[int]
    WAKER_STACKS: Final[int]
    WAKER_STACK_BYTES: Final[int]
    WAKER_THREAD: Final[int]
    WAKER_UNKNOWN: Final[int]
    WALKED_FRAMES: Final[int]
    WINDOWS: Final[int]
    def end_window(self, a0: ControlPointer | Array[Control] | Null, a1: int, a2: int, /) -> int: ...
    def ended_threads_close(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> None: ...
    def ended_threads_forget(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> None: ...
    def ended_threads_has(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, a1: int, a2: int, /) -> int: ...
    def ended_threads_name(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, a1: int, /) -> EndedNamePointer: ...
    def ended_threads_name_of(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, a1: int, /) -> int: ...
    def ended_threads_names(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> int: ...
    def ended_threads_noticed(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> int: ...
    def ended_threads_open(self, a0: ControlPointer | Array[Control] | Null, a1: ThreadRecordPointer | Array[ThreadRecord] | Null, a2: SyscallRecordPointer | Array[SyscallRecord] | Null, a3: HardIrqRecordPointer | Array[HardIrqRecord] | Null, a4: OwnerRecordPointer | Array[OwnerRecord] | Null, a5: SleepRecordPointer | Array[SleepRecord] | Null, a6: Pointer[int] | Array[int] | Null, a7: Pointer[int] | Array[int] | Null, a8: int, /) -> EndedThreadsPointer: ...
    def ended_threads_reused(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, a1: int, a2: Pointer[int] | Array[int] | Null, a3: int, /) -> int: ...
    def ended_threads_set_notices(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> None: ...
    def ended_threads_stop(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, /) -> None: ...
    def ended_threads_sum_up(self, a0: EndedThreadsPointer | Array[EndedThreads] | Null, a1: int, a2: int, a3: int, a4: int, /) -> int: ...
    def find_parts(self, a0: CData | bytes, a1: int, a2: int, a3: int, a4: Pointer[int] | Array[int] | Null, /) -> int: ...
    def free_parts(self, a0: CData | bytes, a1: int, a2: int, a3: Pointer[int] | Array[int] | bytes | Null, a4: RingPositionPointer | Array[RingPosition] | Null, a5: Pointer[int] | Array[int] | Null, a6: int, /) -> None: ...
    def free_slot(self, a0: RingPositionPointer | Array[RingPosition] | Null, a1: Pointer[int] | Array[int] | Null, a2: int, a3: int, /) -> None: ...
    def free_windows(self, a0: ControlPointer | Array[Control] | Null, a1: int, /) -> None: ...
    def load_counter(self, a0: Pointer[int] | Array[int] | Null, /) -> int: ...
    def mark_process(self, a0: Pointer[int] | Array[int] | Null, a1: int, a2: int, /) -> None: ...
    def monotonic_ns(self) -> int: ...
    def publish_window(self, a0: ControlPointer | Array[Control] | Null, a1: int, a2: int, /) -> None: ...
    def store_counter(self, a0: Pointer[int] | Array[int] | Null, a1: int, /) -> None: ...
    def wait_for_programs(self) -> int: ...

ffi: _FFI
lib: _Lib
