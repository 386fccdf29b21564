"""Types of the extension _timeline; written by setup/extension_stubs.py, `make stubs`."""

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar, overload

from typing_extensions import Buffer

from kernel_delay.cdata import *

_T = TypeVar("_T")
_P = TypeVar("_P")

class KeptRound(Struct[KeptRoundPointer]):
    slices: Pointer[int]
    room: int
    reported: int
    modes_before: int
class KeptRoundPointer(KeptRound, Pointer[KeptRound]): ...

class LastSlices(Struct[LastSlicesPointer]):
    state_since_ns: int
    mode_since_ns: int
    throttled_ns: int
    blocked_until_ns: int
    frozen_since_ns: int
    thread: int
    state_what: int
    mode_what: int
    state: int
    mode_kind: int
    mode: int
    unused: int
class LastSlicesPointer(LastSlices, Pointer[LastSlices]): ...

class ShownSlice(Struct[ShownSlicePointer]):
    start_ns: int
    stop_ns: int
    thread: int
    what: int
    cpu: int
    kind: int
    mode: int
    unused: int
class ShownSlicePointer(ShownSlice, Pointer[ShownSlice]): ...

class TakenTimeline(Struct[TakenTimelinePointer]):
    slices: ShownSlicePointer
    count: int
    lost: Array[int]
class TakenTimelinePointer(TakenTimeline, Pointer[TakenTimeline]): ...

class TimelineStore(Struct[TimelineStorePointer]): ...
class TimelineStorePointer(TimelineStore, Pointer[TimelineStore]): ...

class _FFI(FFI):
    @overload
    def new(self, kind: Literal['struct kept_round *'], init: KeptRound = ..., /) -> KeptRoundPointer: ...
    @overload
    def new(self, kind: Literal['struct last_slices *'], init: LastSlices = ..., /) -> LastSlicesPointer: ...
    @overload
    def new(self, kind: Literal['struct last_slices[]'], init: int | Iterable[tuple[int, ...]], /) -> Array[LastSlices]: ...
    @overload
    def new(self, kind: Literal['struct taken_timeline *'], init: TakenTimeline = ..., /) -> TakenTimelinePointer: ...
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
    def addressof(self, struct: KeptRound, field: Literal['slices'], /) -> Pointer[Pointer[int]]: ...
    @overload
    def addressof(self, struct: TakenTimeline, field: Literal['slices'], /) -> Pointer[ShownSlicePointer]: ...
    @overload
    def addressof(self, struct: Struct[_P], /) -> _P: ...
    @overload
    def addressof(self, array: Elements[Struct[_P]], index: int, /) -> _P: ...
    @overload
    def addressof(self, array: Array[int], index: int, /) -> Pointer[int]: ...

class _Lib:
    NO_CPU: Final[int]
    def free(self, a0: CData | bytes, /) -> None: ...
    def round_timeline_show(self, a0: KeptRoundPointer | Array[KeptRound] | Null, a1: int, a2: int, a3: LastSlicesPointer | Array[LastSlices] | Null, a4: TakenTimelinePointer | Array[TakenTimeline] | Null, /) -> int: ...
    def timeline_store_close(self, a0: TimelineStorePointer | Array[TimelineStore] | Null, /) -> None: ...
    def timeline_store_forget(self, a0: TimelineStorePointer | Array[TimelineStore] | Null, a1: int, /) -> None: ...
    def timeline_store_open(self, a0: CData | bytes, a1: CData | bytes, a2: int, a3: int, a4: int, /) -> TimelineStorePointer: ...
    def timeline_store_take(self, a0: TimelineStorePointer | Array[TimelineStore] | Null, a1: int, a2: int, a3: LastSlicesPointer | Array[LastSlices] | Null, a4: int, a5: TakenTimelinePointer | Array[TakenTimeline] | Null, /) -> int: ...

ffi: _FFI
lib: _Lib
