"""Types of the extension _events; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class EventStore(Struct[EventStorePointer]): ...
class EventStorePointer(EventStore, Pointer[EventStore]): ...

class KeptEvent(Struct[KeptEventPointer]):
    entry_ns: int
    exit_ns: int
    off_cpu_ns: int
    value: int
    syscall: int
    tid: int
    kernel_stack: int
    user_stack: int
class KeptEventPointer(KeptEvent, Pointer[KeptEvent]): ...

class MappedRange(Struct[MappedRangePointer]):
    start: int
    end: int
    is_code: int
class MappedRangePointer(MappedRange, Pointer[MappedRange]): ...

class TakenEvents(Struct[TakenEventsPointer]):
    events: KeptEventPointer
    count: int
    shorter: int
    unkept_stacks: int
    kernel_stacks: int
    user_stacks: int
class TakenEventsPointer(TakenEvents, Pointer[TakenEvents]): ...

class TakenStack(Struct[TakenStackPointer]):
    uses: int
    pages: Pointer[int]
    registers: Pointer[int]
    bytes: Pointer[int]
    size: int
class TakenStackPointer(TakenStack, Pointer[TakenStack]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct kept_event *'], init: KeptEvent = ..., /) -> KeptEventPointer: ...
    @overload
    def new(self, kind: Literal['struct kept_event[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[KeptEvent]: ...
    @overload
    def new(self, kind: Literal['struct mapped_range[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[MappedRange]: ...
    @overload
    def new(self, kind: Literal['struct taken_events *'], init: TakenEvents = ..., /) -> TakenEventsPointer: ...
    @overload
    def new(self, kind: Literal['struct taken_stack *'], init: TakenStack = ..., /) -> TakenStackPointer: ...
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
    def addressof(self, struct: TakenEvents, field: Literal['events'], /) -> Pointer[KeptEventPointer]: ...
    @overload
    def addressof(self, struct: Struct[_P], /) -> _P: ...
    @overload
    def addressof(self, array: Elements[Struct[_P]], index: int, /) -> _P: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...

class _Lib:
    COMPAT_CALL: Final[int]
    NO_STACK: Final[int]
    def event_store_close(self, a0: EventStorePointer | Array[EventStore] | Null, /) -> None: ...
    def event_store_kernel_stack(self, a0: EventStorePointer | Array[EventStore] | Null, a1: int, a2: TakenStackPointer | Array[TakenStack] | Null, /) -> None: ...
    def event_store_open(self, a0: int, a1: int, a2: int, a3: int, /) -> EventStorePointer: ...
    def event_store_set_mappings(self, a0: EventStorePointer | Array[EventStore] | Null, a1: MappedRangePointer | Array[MappedRange] | Null, a2: int, /) -> int: ...
    def event_store_take(self, a0: EventStorePointer | Array[EventStore] | Null, a1: int, a2: TakenEventsPointer | Array[TakenEvents] | Null, /) -> int: ...
    def event_store_user_stack(self, a0: EventStorePointer | Array[EventStore] | Null, a1: int, a2: TakenStackPointer | Array[TakenStack] | Null, /) -> None: ...
    def free(self, a0: CData | bytes, /) -> None: ...

ffi: _FFI
lib: _Lib
