"""Long calls, and samples of what threads ran, in rounds that are long or may become so."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from kernel_delay.capture.plan import EventPlan
from kernel_delay.capture.programs import Programs
from kernel_delay.capture.syscall_events.event_store import EventStore
from kernel_delay.loader._records import ffi, lib
from kernel_delay.model import Lost, ProfiledStack, StackFrame, SyscallEvent

# How a sample's event is known: by its number, as struct kept_event has NO_SYSCALL.
SAMPLE = int(ffi.cast("int32_t", lib.NO_SYSCALL))

MOST_EVENTS_OF_THREAD = 2000

Frames = tuple[StackFrame, ...]


class _Kept(Struct, frozen=True):
    """An event and its stacks, None where they were not taken."""

    event: SyscallEvent
    kernel: Frames | None
    user: Frames | None


class RoundEvents(Struct, frozen=True):
    """The long calls of one round, and its samples; `stacks` are those of both."""

    events: tuple[SyscallEvent, ...]
    profile: tuple[ProfiledStack, ...]
    stacks: tuple[Frames, ...]


class EventsOfRounds:
    """All events of the process, until it is known which of them are of long rounds."""

    def __init__(
        self, programs: Programs, pid: int, plan: EventPlan, notify: Callable[[str], None]
    ) -> None:
        """Keep them from now on."""
        self._store = EventStore(programs, pid, plan, lambda done, total: None, notify)
        if reason := self._store.nameless():
            notify(reason)
        self._kept: defaultdict[int, deque[_Kept]] = defaultdict(
            lambda: deque(maxlen=MOST_EVENTS_OF_THREAD)
        )
        self._lost = Lost()
        self._forgettable_ns = 0
        self._is_open = True

    def close(self) -> None:
        """Keep no more; again, and nothing is done."""
        if self._is_open:
            self._is_open = False
            self._store.close()

    def take(self, now_ns: int) -> None:
        """Name the stacks of all that ended by now: a round is to have them."""
        taken = self._store.take(now_ns)
        self._lost += taken.lost
        for event in taken.events:
            kernel, user = event.kernel_stack, event.user_stack
            self._kept[event.tid].append(
                _Kept(
                    event,
                    None if kernel is None else taken.stacks[kernel],
                    None if user is None else taken.stacks[user],
                )
            )

    def forget(self, before_ns: int) -> None:
        """Forget what ended before the time that the call before had.

        By then it was of no round that is open. The record of a round that ended shortly before
        is made between two calls.
        """
        before_ns, self._forgettable_ns = self._forgettable_ns, before_ns
        self._store.discard(before_ns)
        for tid, kept in list(self._kept.items()):
            left = [each for each in kept if each.event.exit_ns >= before_ns]
            if left:
                self._kept[tid] = deque(left, maxlen=MOST_EVENTS_OF_THREAD)
            else:
                del self._kept[tid]

    def of_round(self, tid: int, start_ns: int, stop_ns: int) -> RoundEvents:
        """Return what is of that thread's round, after take()."""
        mine = [
            each
            for each in self._kept.get(tid, ())
            if each.event.entry_ns >= start_ns and each.event.exit_ns <= stop_ns
        ]
        places: dict[Frames, int] = {}

        def place(frames: Frames | None) -> int | None:
            return None if frames is None else places.setdefault(frames, len(places))

        calls = tuple(
            replace(each.event, kernel_stack=place(each.kernel), user_stack=place(each.user))
            for each in mine
            if each.event.number != SAMPLE
        )
        profile = _profile(each for each in mine if each.event.number == SAMPLE)
        samples = tuple(
            ProfiledStack(count, place(user), place(kernel))
            for (user, kernel), count in profile.most_common()
        )
        return RoundEvents(calls, samples, tuple(places))

    def newly_lost(self) -> Lost:
        """Return what was lost since the call before, for the Sample that is made now."""
        lost, self._lost = self._lost, Lost()
        return lost


def _profile(samples: Iterable[_Kept]) -> Counter[tuple[Frames | None, Frames | None]]:
    """Return how often each stack was seen: the same functions are the same stack."""
    first: dict[object, tuple[Frames | None, Frames | None]] = {}
    counted: Counter[tuple[Frames | None, Frames | None]] = Counter()
    for each in samples:
        key = (_functions(each.user), _functions(each.kernel))
        counted[first.setdefault(key, (each.user, each.kernel))] += 1
    return counted


def _functions(frames: Frames | None) -> object:
    return frames and tuple((frame.name or frame.address, frame.object) for frame in frames)
