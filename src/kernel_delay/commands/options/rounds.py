"""The options that say which rounds are long, and what is kept of one."""

import argparse
from typing import TYPE_CHECKING, NamedTuple

from kernel_delay.commands.options import accounting, arguments
from kernel_delay.commands.options import windows as window_options
from kernel_delay.errors import UsageError

if TYPE_CHECKING:
    from kernel_delay.capture.plan import EventPlan, RoundPlan
    from kernel_delay.host.target import ProcessTarget

# A shorter call is none that makes a round long, however low the threshold.
SHORTEST_CALL_NS = 1_000_000

# Of all rounds that are open, as long as it is not known which of them are long.
MOST_EVENTS = 10_000
MOST_STACKS = 2_000
BUFFER_PAGES = 2048

MIB = 1 << 20

# As Open vSwitch logs it.
THRESHOLD_S = "1"
THRESHOLD_NS = 1_000_000_000

GAP_NS = 100_000_000
PMD_GAP_NS = 1_000_000

# Of a round's timeline.
SLICES = 1024

# Of a storm of long rounds, when a signal came: it takes a second or so to write them down.
MOST_LATE = 64

# Of the room that there is, what the programs' records may take, timelines, and copies of stacks,
# each of a few pages mostly.
RECORDS_SHARE = 4
TIMELINES_SHARE = 2
STACKS_SHARE = 8
STACK_BYTES = 32 << 10


class RoundRequest(NamedTuple):
    """What the options say.

    Attributes:
        threshold_ns: The length from which on a round is recorded.
        gap_ns: For how long after a record only longer rounds of that thread are.
        pmd_gap_ns: How long a PMD thread is off its CPU at least to be recorded.
        start_trigger: What starts a round, in place of the return of a poll. None: that return.
        stop_trigger: What ends it then.
        stacks: Take stacks.
        chains: Follow whom the threads wait for.
        calls: Hook each system call, not polls alone.
        timeline: Keep what happened in order.
        max_slices: How much of that. None: SLICES.
    """

    threshold_ns: int = THRESHOLD_NS
    gap_ns: int = GAP_NS
    pmd_gap_ns: int = PMD_GAP_NS
    start_trigger: str | None = None
    stop_trigger: str | None = None
    stacks: bool = True
    chains: bool = False
    calls: bool = False
    timeline: bool = False
    max_slices: int | None = None


def request(args: argparse.Namespace) -> RoundRequest:
    """Return what the options say."""
    return RoundRequest(**{name: getattr(args, name) for name in RoundRequest._fields})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--threshold",
        dest="threshold_ns",
        type=arguments.pause_ns,
        default=THRESHOLD_S,
        metavar="SECONDS",
        help="record a round (an event loop iteration, poll to poll) of at least this length"
        " (default: %(default)s, as Open vSwitch logs it)",
    )
    parser.add_argument(
        "--min-gap",
        dest="gap_ns",
        type=arguments.pause_ns,
        default="0.1",
        metavar="SECONDS",
        help="for this time after a record, only longer rounds of that thread are recorded; the"
        " others are counted (default: %(default)s)",
    )
    parser.add_argument(
        "--pmd-gap",
        dest="pmd_gap_ns",
        type=arguments.pause_ns,
        default="0.001",
        metavar="SECONDS",
        help="record each time that a PMD thread of Open vSwitch is off its CPU for this"
        " long (default: %(default)s)",
    )
    parser.add_argument(
        "--start-trigger",
        metavar="TRIGGER",
        help=("start a round at a hit of TRIGGER in user code, instead of at the return of a poll"),
    )
    parser.add_argument(
        "--stop-trigger",
        metavar="TRIGGER",
        help="end the round at a hit of TRIGGER in the same thread",
    )
    parser.add_argument(
        "--no-stacks",
        dest="stacks",
        action="store_false",
        help="take no stacks (of calls that take a tenth of the threshold, and of what a"
        " thread runs in a long round)",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="hook each system call and page fault, which costs the process more. By default only"
        " polls are hooked: other calls are known by their sleeps and by samples. --timeline,"
        " --metrics and --otlp hook each call too",
    )
    accounting.add_chains(parser)
    parser.add_argument(
        "--timeline",
        action="store_true",
        help="keep states, system calls, page faults and interrupts of a long round in"
        " order: the first and the last of them",
    )
    parser.add_argument(
        "--max-slices",
        type=arguments.count,
        metavar="N",
        help="number of timeline slices to keep of a round, half of them its first and half"
        f" its last; a power of two (default: {SLICES})",
    )


def plan(request: RoundRequest, target: "ProcessTarget", room: int) -> "RoundPlan":
    """What is recorded of this process, in `room` bytes of memory and no more."""
    from msgspec.structs import replace

    from kernel_delay.capture.plan import RoundPlan
    from kernel_delay.openvswitch.log import PMD_NAME, ROUND_POLLS, is_open_vswitch

    if request.max_slices is not None and not request.timeline:
        raise UsageError("--max-slices limits a timeline: add --timeline")
    max_slices = _slices(request.max_slices or SLICES, room) if request.timeline else None
    rounds = RoundPlan(
        request.threshold_ns,
        request.gap_ns,
        max_slices=max_slices,
        record_bytes=room // RECORDS_SHARE,
        timeline_bytes=room // TIMELINES_SHARE,
        most_late=MOST_LATE,
        chains=request.chains,
        calls=request.calls or request.timeline,
    )
    if request.start_trigger is not None and request.stop_trigger is not None:
        start = window_options.trigger_points(request.start_trigger, target.pid)
        stop = window_options.trigger_points(request.stop_trigger, target.pid)
        rounds = replace(rounds, start=start, stop=stop)
        _check_triggers(rounds)
        return rounds
    if not is_open_vswitch(target.comm):
        return rounds
    gap_ns = max(request.pmd_gap_ns, 1)
    return replace(rounds, polls=ROUND_POLLS, off_cpu_round_ns=gap_ns, off_cpu_name=PMD_NAME)


def _slices(max_slices: int, room: int) -> int:
    """Return that; UsageError where so many don't fit."""
    from kernel_delay.capture.map_sizes import least_timeline_bytes

    least = least_timeline_bytes(max_slices)
    if least > room // TIMELINES_SHARE:
        raise UsageError(
            f"timelines of {max_slices:,} slices need {least / MIB:,.0f} MiB, more than half of"
            " --memory-limit: lower --max-slices, or raise --memory-limit"
        )
    return max_slices


def _check_triggers(rounds: "RoundPlan") -> None:
    """Raise UsageError for one in the kernel: it may be hit while a thread's time is noted."""
    from kernel_delay.probes import UserProbe

    for trigger in (rounds.start, rounds.stop):
        if trigger and not all(isinstance(point, UserProbe) for point in trigger.points):
            raise UsageError(
                f"{trigger.text} is in the kernel: a round starts and ends in user code"
            )


def events(request: RoundRequest, room: int) -> "EventPlan | None":
    """Which single calls are kept, with their stacks; None: none."""
    from kernel_delay.capture.plan import EventPlan

    if not request.stacks:
        return None
    shortest_ns = max(request.threshold_ns // 10, SHORTEST_CALL_NS)
    return EventPlan(
        shortest_ns,
        max_events=MOST_EVENTS,
        max_stacks=min(MOST_STACKS, room // STACKS_SHARE // STACK_BYTES),
        buffer_pages=BUFFER_PAGES,
    )
