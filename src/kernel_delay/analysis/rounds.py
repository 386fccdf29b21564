"""What made a round long: the verdict's worst finding, or else where most of it went."""

from collections import Counter

from msgspec import Struct

from kernel_delay.analysis.states import STATES, states
from kernel_delay.analysis.verdict import RULES
from kernel_delay.analysis.verdict.chain_ends import WAIT_CHAIN_END, WAIT_CHAIN_SEVERAL
from kernel_delay.analysis.verdict.formatting import WITHOUT_DELAY, length, share
from kernel_delay.analysis.verdict.user_work import USER_WORK
from kernel_delay.analysis.verdict.wait_chains import WAIT_CHAIN
from kernel_delay.model import Finding, Round, Sample, Sleep, StackFrame, Thread, ThreadTime

# What the parts of a thread's time are called in a sentence; blocked is named by its sleeps.
_PARTS = {
    "user_ns": "ran its program",
    "kernel_ns": "ran in the kernel",
    "hard_irq_ns": "served hard IRQs",
    "soft_irq_ns": "served soft IRQs",
    "ready_ns": "waited for a CPU",
    "stopped_ns": "was stopped",
    "throttled_ns": "was throttled",
    "frozen_ns": "was frozen",
    "guest_ns": "ran a virtual machine",
    "tool_ns": "ran kernel-delay's own program",
    "unaccounted_ns": "did what could not be known",
}


# What runs in these was asked for by the function above it.
_LIBRARIES = ("libc.", "libc-", "libpthread", "ld-linux", "ld.so", "[vdso]")


class RanFunction(Struct, frozen=True):
    """A function of the program that was on the CPU, or had called what was, in `samples`.

    `stack` is the most frequent with it, as a place in the Sample's `stacks`.
    """

    name: str
    samples: int
    stack: int


def ran_functions(sample: Sample) -> list[RanFunction]:
    """Return what the thread of a round ran when it was sampled, the most frequent first.

    Of each stack that is the innermost function that is not the C library's; of code without a
    name, as in a stripped program, the file and who called it, so that all of it counts as one.
    """
    if sample.round is None:
        return []
    counted: Counter[str] = Counter()
    stacks: dict[str, int] = {}
    for profiled in sample.round.profile:
        if profiled.user_stack is None:
            continue
        name = _function(sample.stacks[profiled.user_stack])
        counted[name] += profiled.samples
        stacks.setdefault(name, profiled.user_stack)
    return [RanFunction(name, samples, stacks[name]) for name, samples in counted.most_common()]


def samples_of(round_: Round) -> int:
    """Return how often the thread of a round was sampled."""
    return sum(profiled.samples for profiled in round_.profile)


def _function(stack: tuple[StackFrame, ...]) -> str:
    own = [frame for frame in stack if not _file(frame).startswith(_LIBRARIES)]
    if not own:
        return stack[0].name or "unknown code" if stack else "unknown code"
    if own[0].name:
        return own[0].name
    code = _file(own[0]) or "code"
    callers = [frame.name for frame in own if frame.name]
    return f"{code}, called by {callers[0]}" if callers else f"{code} at {own[0].address:#x}"


def _file(frame: StackFrame) -> str:
    return (frame.object or "").rpartition("/")[2]


def main_cause(sample: Sample) -> str:
    """Return sentences on why the round of a Sample, which is judged, was long.

    They say what the thread ran too, where that was most of the round.
    """
    thread = sample.threads[0]
    time = thread.time
    cause = _main_cause(sample)
    functions = ran_functions(sample)
    if sample.round is None or not functions or time is None:
        return cause
    if 2 * (time.user_ns + time.kernel_ns) < _whole(sample):
        return cause
    return f"{cause} {_most(functions[0], samples_of(sample.round))}"


def _most(ran: RanFunction, of: int) -> str:
    """Say what was sampled most: `mostly` is more than half of it."""
    if 2 * ran.samples > of:
        return f"It ran mostly in {ran.name}."
    return f"It ran most often in {ran.name}: {share(ran.samples, of)} of the samples."


UNKNOWN_CAUSE = "unknown"

# Of a round that this tool had most of, its rule finds that.
_STATES = tuple(state for state in STATES if state != "tool")

# A wait chain is one cause, whether its root is known or not, and however many there are.
_ALIKE = dict.fromkeys((WAIT_CHAIN_END.name, WAIT_CHAIN_SEVERAL.name), WAIT_CHAIN.name)

_RULES = tuple(rule.name for rule in (*RULES, USER_WORK) if rule.name not in _ALIKE)

CAUSES = (UNKNOWN_CAUSE, *_RULES, *_STATES)
"""All words that cause_name() may return."""


def cause_name(sample: Sample) -> str:
    """Return the same as one word, to count rounds by: a rule of the verdict, or a state."""
    rules = [finding.rule for finding in sample.verdict if not finding.remark]
    time = sample.threads[0].time
    if rules or time is None:
        return _ALIKE.get(rules[0], rules[0]) if rules else UNKNOWN_CAUSE
    parts_ns = states(time)
    return max(_STATES, key=lambda state: parts_ns[state])


def _main_cause(sample: Sample) -> str:
    part, ns = main_part(sample.threads[0])
    found = [finding for finding in sample.verdict if 2 * finding.share >= ns / _whole(sample)]
    if found:
        return _shortened(found[0])
    return f"it {part} for {length(ns)}, {share(ns, _whole(sample))} of the round."


def _shortened(finding: Finding) -> str:
    """Its text, without how long the round would have taken: a line has no room for more."""
    first, *_ = finding.details or ("",)
    return (
        finding.text.replace(f" {first}", "") if first.startswith(WITHOUT_DELAY) else finding.text
    )


def _whole(sample: Sample) -> int:
    return max(1, sample.window.duration_ns)


def main_part(thread: Thread) -> tuple[str, int]:
    """Return what a thread did for the longest part of its time, and how long that was."""
    time = thread.time
    if time is None:
        return "did what was not measured", 0
    name, ns = max(_parts(time), key=lambda part: part[1])
    if name == _PARTS["user_ns"] and 2 * thread.unsplit_ns > ns:
        name = "was on a CPU"
    if time.blocked_ns <= ns:
        return name, ns
    return _slept(thread), time.blocked_ns


def _parts(time: ThreadTime) -> list[tuple[str, int]]:
    lengths: dict[str, int] = {field: getattr(time, field) for field in _PARTS}
    return [(_PARTS[field], ns) for field, ns in lengths.items()]


def _slept(thread: Thread) -> str:
    """Say where it slept longest, and who woke it."""
    if not thread.sleeps:
        return "slept"
    sleep = thread.sleeps[0]
    where = f" in {sleep.syscall}" if sleep.syscall else ""
    return f"slept{where}{_wakers(sleep)}"


def _wakers(sleep: Sleep) -> str:
    threads = [waker for waker in sleep.wakers if waker.kind == "thread"]
    if not threads:
        return ""
    return f", until {threads[0].comm} ({threads[0].tid}) woke it,"
