"""What kernel-delay shall cost at most, and whether the results say that it does."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from bench.figures import Measured, Results, ratio
from bench.measures import acts, own_cost, packets, reporting, soft_irqs, storm, verifier
from bench.rounds import UNMEASURED, added

THEIRS = "kernel_delay.py"
FLOOR = "empty programs"
TABLES = "kernel-delay --no-accounting"
OURS = "kernel-delay"
WATCH = "kernel-delay watch"

_CALLED = (
    "A program that does nothing, on entry and exit, already costs more than the target"
    " on this machine. Fewer hooks would leave the calls of others alone, and there are"
    " none for one process."
)
_CLOCK = (
    "The call of a program and its reading of the clock (25 ns on this machine) are most"
    " of the cost. The peer kernel_delay.py has both as often: see 'programs that read the clock'."
    " Tried: one clock value for both threads of a switch saves 50 to 60 ns per ping. No"
    " search for a thread's record on entry, where none is needed, saves 2 to 8 ns per"
    " call. A look into task storage takes 3 ns; an array in its place, tried alone,"
    " saves 1 ns."
)
_HOOKS = (
    "Programs at the same places that only read the clock cost this much or nearly. The"
    " text below the table of packets has the parts. Every tool must read the clock twice"
    " to know the length of a soft IRQ. Tried: one search for the thread of a soft IRQ"
    " instead of two, and none for its record on entry, saves 5 ns per pair. A shorter"
    " way for those within the window saved 1 ns and was not kept."
)
_SWITCHES = (
    "The peer reads the clock and a map at a switch. Ours also charges both threads, and notes what"
    " each waits for and who has the CPU meanwhile: `--no-accounting` is without that. Tried:"
    " all of it inlined (2889fa7). A switch of the target took 1.23 in place of 1.39 times the"
    " peer's then. The verifier processed 118,000 in place of 82,000 instructions. At a switch of"
    " others ours calls one program more than the empty ones do, `on_sched_wakeup`: who wakes a"
    " thread is known before its CPU is. So one program in place of the two cannot know both."
)
_OPENS = (
    "Loading is the largest part: see 'time to load' in the table of the verifier. The others are"
    " the interpreter, the modules of the command, and attaching. Modules that are needed later"
    " are imported beside the loading."
)
_VERIFIES = (
    "All kernels verify the same programs. An older one looks at more paths twice."
    " Without bpf_loop(), before 5.17, it goes through each turn of a loop. Tried: functions that"
    " are verified once, for all that several programs do, and no branch where the ways do not"
    " differ. That left a sixth of 118,000, and a switch got no dearer."
)
_VERIFIES_MORE = (
    "It was 19,495 at 41b1cba0. Where an event before was missed, a state is now unknown, and not"
    " guessed: 1,008 instructions more (54d81d68, 2bb0fec4). Polls that only time out are counted:"
    " 215 (14e4c3c1, e285179f). A sleep in epoll_wait has the file that ended it: 177 (688fc64c)."
    " `make cost` fails where a change adds more than 5 %."
)
_REQUESTS = (
    "This kernel takes no program at its functions. So a watch needs one at the entry of each call."
    " That costs 20 ns for each of the 3 to 9 calls of a request. The rest is polls, of 60 to 100"
    " ns, and switches. Tried: a round that is short gets no record. That saves a third of a poll."
)
_REPORTS = (
    "All parts of a report of many threads take their share: the snapshot of the records, the"
    " accounts, the verdict, the tables. Tried: threads that slept throughout in the same place"
    " have one account, and arrays are read at once. That left half of 2,231 ms. Another step would"
    " be to have the accounts in columns of native code."
)
_THREADS = ("1 thread", "2 threads")
_VERIFIED = tuple(
    f"instructions verified, {name}, on the kernel with the most" for name in ("default", "-s")
)
_VERIFIED_HERE = "instructions verified, default, on this kernel"
_REQUEST = tuple(
    f"added to a request of {name}, {WATCH}, %" for name in ("redis SET", "redis GET", "nginx")
)
_REPORT = "report of 5,000 threads, ms"
_SWITCH = f"added to a switch, traced: {OURS} / {THEIRS}"
_OTHERS_SWITCH = f"added to a switch, other: {OURS}, beyond {FLOOR}, ns"
_OPENS_MS = f"time until the window opens, {OURS}, ms"
_OPENS_RATIO = f"time until the window opens, {OURS} / {THEIRS}"
_SOFT_IRQ = f"added to a soft IRQ, traced, {OURS}, ns"
_FLOOD = f"fewer packets through Open vSwitch in a flood, {OURS}, %"

REMARKS: Mapping[str, str] = MappingProxyType(
    {
        f"added to a call, {whose}, {threads}: {peer} / {THEIRS}": remark
        for whose, remark in (("traced", _CLOCK), ("other", _CALLED))
        for threads in _THREADS
        for peer in (TABLES, OURS)
    }
    | {
        f"added to a ping (4 calls, 2 switches), {peer} / {THEIRS}": _CLOCK
        for peer in (TABLES, OURS)
    }
    | {_SWITCH: _SWITCHES, _OTHERS_SWITCH: _SWITCHES, _OPENS_MS: _OPENS, _OPENS_RATIO: _OPENS}
    | {_SOFT_IRQ: _HOOKS, _FLOOD: _HOOKS, _REPORT: _REPORTS}
    | dict.fromkeys(_VERIFIED, _VERIFIES)
    | {_VERIFIED_HERE: _VERIFIES_MORE}
    | dict.fromkeys(_REQUEST, _REQUESTS)
)
"""By a target's `about`: of one that is missed, what was tried and what limits it."""

# Of two sizes: how much more than in proportion the larger one may cost, for noise.
_LINEAR = 1.25
_FLAT = 1.1
_PERCENT_OF_LIMITS = 40
_PACED = "1,000,000/s"

Value = Callable[[Results], float | None]


class Target(Struct, frozen=True):
    """A bound of a value, `least` or most; `about` says what is bound."""

    about: str
    value: Value
    bound: float
    least: bool = False

    def met(self, results: Results) -> bool | None:
        """Tell whether it is met; None where it was not measured."""
        value = self.value(results)
        if value is None:
            return None
        return value >= self.bound if self.least else value <= self.bound


def targets() -> Iterator[Target]:
    """Yield all, in the order of the page."""
    for threads in _THREADS:
        yield from _of_calls(threads)
    for peer in (TABLES, OURS):
        about = f"added to a ping (4 calls, 2 switches), {peer} / {THEIRS}"
        yield Target(about, _added("traced, ping", peer, THEIRS), 0.6)
    yield Target(_SWITCH, _added(f"traced, {acts.SWITCH}", OURS, THEIRS), 1.0)
    yield Target(_OTHERS_SWITCH, _beyond_floor, 20)
    yield Target(_OPENS_MS, _opens_ms, 90)
    yield Target(_OPENS_RATIO, _own(own_cost.OPENS, THEIRS), 0.12)
    for name, most in (("default", 20_000), ("-s", 30_000)):
        case = f"{name}: all programs"
        yield Target(f"instructions verified, {name}, on this kernel", _verified_here(case), most)
        about = f"instructions verified, {name}, on the kernel with the most"
        yield Target(about, _verified(case), most)
        about = f"instructions verified, {name}, the largest program, on any kernel"
        yield Target(about, _verified(f"{name}: largest program"), 8_000)
    yield from _of_limits()
    yield Target(f"peak memory, {OURS} / {THEIRS}", _own(own_cost.PEAK, THEIRS), 0.3)
    yield Target("peak memory, window of 5 s / of 0.5 s", _flat, _FLAT)
    with_stacks, stackless = f"{OURS} -s --json", f"{OURS} {' '.join(storm.STACKLESS)} --json"
    yield from _of_storms(with_stacks)
    yield from _of_storms(stackless)
    # Taking the stacks of each takes longer than the millionth part of a second.
    events = _storm(_PACED, "events", stackless)
    yield Target(f"storm, {_PACED}, {stackless}: events", events, 990_000, least=True)
    yield Target(_SOFT_IRQ, _soft_irq_ns, 110)
    yield Target(_FLOOD, _fewer_packets, 8)
    yield Target(f"fewer packets of a PMD thread, {WATCH}, %", _fewer_pmd_packets, 3)
    for request in ("redis SET", "redis GET", "nginx"):
        about = f"added to a request of {request}, {WATCH}, %"
        yield Target(about, _share_of_request(request), 3)
    yield Target(_REPORT, _threads_ms, 1000)
    yield Target("report, per thread: of 5,000 / of 1,000", _per_thread, _LINEAR)
    yield Target("report, per event: of 1,000,000 / of 100,000", _per_event, _LINEAR)


def _of_calls(threads: str) -> Iterator[Target]:
    for whose, of_floor in (("traced", 2.5), ("other", 1.3)):
        case = f"{whose}, {threads}"
        about = f"added to a call, {case}:"
        yield Target(f"{about} {TABLES} / {THEIRS}", _added(case, TABLES, THEIRS), 0.45)
        yield Target(f"{about} {TABLES} / {FLOOR}", _added(case, TABLES, FLOOR), of_floor)
        yield Target(f"{about} {OURS} / {THEIRS}", _added(case, OURS, THEIRS), 0.6)


def _of_limits() -> Iterator[Target]:
    """Yield what one program may take of the limits of 5.14, of all objects on all kernels."""
    for what, most, limit in (
        ("instructions", verifier.most_instructions, verifier.LIMIT_OF_INSTRUCTIONS),
        ("jumps", verifier.most_jumps, verifier.LIMIT_OF_JUMPS),
    ):
        about = f"{what} of one program, of any object, on any kernel, % of {limit:,}"
        yield Target(about, _share_of_limit(most, limit), _PERCENT_OF_LIMITS)


def _of_storms(peer: str) -> Iterator[Target]:
    for name in storm.STORMS:
        about = f"storm, {name}, {peer}:"
        yield Target(f"{about} window too long by, ns", _storm(name, "window too long by", peer), 0)
    dropped = _storm(_PACED, "dropped", peer)
    yield Target(f"storm, {_PACED}, {peer}: events dropped", dropped, 0)


def _added(case: str, part: str, whole: str) -> Value:
    def value(results: Results) -> float | None:
        of_both = (results.figure("syscall", added(case), peer) for peer in (part, whole))
        return ratio(*of_both)

    return value


def _own(case: str, whole: str) -> Value:
    return lambda results: ratio(
        results.figure("own", case, OURS), results.figure("own", case, whole)
    )


def _flat(results: Results) -> float | None:
    return ratio(
        results.figure("own", own_cost.PEAK_LONG, OURS), results.figure("own", own_cost.PEAK, OURS)
    )


def _storm(name: str, case: str, peer: str) -> Value:
    return lambda results: _median(results, "storm", f"{name}: {case}", peer)


def _beyond_floor(results: Results) -> float | None:
    case = added(f"other, {acts.SWITCH}")
    ours, floor = (_median(results, "syscall", case, peer) for peer in (OURS, FLOOR))
    return None if ours is None or floor is None else ours - floor


def _opens_ms(results: Results) -> float | None:
    return _median(results, "own", own_cost.OPENS, OURS)


def _verified_here(case: str) -> Value:
    return lambda results: _median(results, "verifier", case, verifier.HERE)


def _verified(case: str) -> Value:
    """Return the most of all kernels, of which each is a peer."""

    def value(results: Results) -> float | None:
        measured = results.measures.get("verifier")
        found = [each.median for each in measured.figures if each.case == case] if measured else []
        return max(found, default=None)

    return value


def _share_of_limit(most: Callable[[Measured], float], limit: int) -> Value:
    def value(results: Results) -> float | None:
        measured = results.measures.get("verifier")
        return 100 * most(measured) / limit if measured else None

    return value


def _share_of_request(request: str) -> Value:
    case = f"{request}: a request"

    def value(results: Results) -> float | None:
        more = _median(results, "servers", added(case), WATCH)
        alone = _median(results, "servers", case, UNMEASURED)
        return None if more is None or not alone else 100 * more / alone

    return value


def _fewer_pmd_packets(results: Results) -> float | None:
    return _median(results, "pmd", packets.FEWER, WATCH)


def _soft_irq_ns(results: Results) -> float | None:
    return _median(results, "softirq", added(soft_irqs.TRACED), OURS)


def _fewer_packets(results: Results) -> float | None:
    return _median(results, "packets", packets.FEWER, OURS)


def _threads_ms(results: Results) -> float | None:
    return _median(results, "report", reporting.threads_case(5000), OURS)


def _per_thread(results: Results) -> float | None:
    def cost_ms(count: int) -> float | None:
        return _median(results, "report", reporting.threads_case(count), OURS)

    return _growth(cost_ms, 10, 1000, 5000)


def _per_event(results: Results) -> float | None:
    def cost_ms(count: int) -> float | None:
        return _median(results, "report", reporting.events_case(count), f"{OURS} -s")

    return _growth(cost_ms, 1000, 100_000, 1_000_000)


def _growth(cost: Callable[[int], float | None], base: int, some: int, many: int) -> float | None:
    """Return what each of `many` costs beyond `base`, to what each of `some` does."""
    at_base, of_some, of_many = cost(base), cost(some), cost(many)
    if at_base is None or of_some is None or of_many is None or of_some <= at_base:
        return None
    return (of_many - at_base) / (many - base) / ((of_some - at_base) / (some - base))


def _median(results: Results, measure: str, case: str, peer: str) -> float | None:
    figure = results.figure(measure, case, peer)
    return figure.median if figure else None
