"""Where threads stand, as text: who waits for whom, then each thread with its stacks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice

from kernel_delay.analysis.verdict.stopped_or_frozen import thawing_command
from kernel_delay.analysis.verdict.wait_reasons import PHRASES
from kernel_delay.formatting import brief, printable
from kernel_delay.host.kernel_names import OPENS
from kernel_delay.model import SleepReason, StackFrame
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.syscall_events import frame_text
from kernel_delay.where import (
    OR_A_TIMEOUT,
    Holder,
    ProcessPosition,
    State,
    ThreadPosition,
    UserFrame,
    Where,
)

# Of threads that stand alike so many are named.
MOST_NAMED = 3

# So many deadlocks have a line of their own, and so many owners of locks.
MOST_DEADLOCKS = 16
MOST_OWNERS = 16

# Of a deadlock so many threads are named.
MOST_DEADLOCKED = 16

# Whoever sleeps so waits for more than its call's object.
_IN_THE_KERNEL: frozenset[SleepReason] = frozenset(
    (
        "disk", "page_cache", "network_filesystem", "swap", "reclaim", "mmap_lock", "kernel_lock",
        "frozen_filesystem", "file_lock", "fuse", "userfaultfd", "seccomp", "fanotify", "rcu",
        "core_dump",
    )
)  # fmt: skip

# With which each system call begins: arch/x86/entry/, arch/arm64/kernel/ (5.14 to 6.18).
_ENTRIES = frozenset(
    (
        "entry_SYSCALL_64_after_hwframe", "do_syscall_64", "x64_sys_call",
        "entry_INT80_compat_after_hwframe", "do_int80_syscall_32", "do_fast_syscall_32",
        "entry_SYSENTER_compat_after_hwframe", "__do_fast_syscall_32", "ret_from_fork_asm",
        "el0t_64_sync", "el0t_64_sync_handler", "el0_svc", "do_el0_svc", "el0_svc_common",
        "invoke_syscall", "ret_from_fork",
    )
)  # fmt: skip

# The first is shown first.
_ORDER: Sequence[State] = (
    "uninterruptible", "stopped", "traced", "frozen", "throttled", "runnable", "running",
    "sleeping", "exited",
)  # fmt: skip

_INDENT = "    "
_FRAME = "      "


_WAITING: tuple[State, ...] = ("sleeping", "uninterruptible")


def render(found: Where, layout: Layout) -> str:
    """The processes, one below the other, each line with its end."""
    threads = {thread.tid: thread for each in found.processes for thread in each.threads}
    lines: list[str] = []
    for circle in found.deadlocks[:MOST_DEADLOCKS]:
        lines += layout.comment(_deadlock([threads[tid] for tid in circle]), "verdict")
    if (more := len(found.deadlocks) - MOST_DEADLOCKS) > 0:
        lines += layout.comment(f"{more:,} more {_plural(more, 'deadlock')}.", "verdict")
    for process in found.processes:
        if lines:
            lines.append("")
        lines += _process(process, found, threads, layout)
    return "".join(f"{line}\n" for line in lines)


def _deadlock(circle: Sequence[ThreadPosition]) -> str:
    awaited = (*circle[1:], circle[0])
    waits = [
        f"{_name(thread)} waits for {'a lock' if thread.owners else 'the end'} of {_name(other)}"
        for thread, other in islice(zip(circle, awaited, strict=True), MOST_DEADLOCKED)
    ]
    if (more := len(circle) - MOST_DEADLOCKED) > 0:
        waits.append(f"so on through {more:,} more {_plural(more, 'thread')}")
    return f"DEADLOCK: {', and '.join(waits)}."


def _process(
    process: ProcessPosition, found: Where, threads: Mapping[int, ThreadPosition], layout: Layout
) -> Iterator[str]:
    title = printable(" ".join(process.command_line))
    behind = f": {title}" if title else ""
    yield from layout.comment(
        f"Process {process.pid} ({printable(process.comm)}){behind}", "heading"
    )
    yield from layout.comment(_counts(process.threads))
    for remark in process.remarks:
        yield from layout.comment(printable(remark), "remark")
    for remedy in _remedies(process):
        yield from layout.comment(remedy, "verdict")
    in_circles = {tid for circle in found.deadlocks for tid in circle}
    yield from _waited_for(process, in_circles, threads, layout)
    for alike in _grouped(process.threads, in_circles):
        yield ""
        yield from _threads(alike, layout)


def _counts(threads: Sequence[ThreadPosition]) -> str:
    states = [thread.state for thread in threads]
    counts = [f"{states.count(state):,} {state}" for state in _ORDER if state in states]
    return f"{len(threads):,} {'thread' if len(threads) == 1 else 'threads'}: {', '.join(counts)}"


# With SIGCONT it would use the terminal again, and be stopped again (termios(3), "tostop").
_OF_TERMINALS = frozenset(("SIGTTIN", "SIGTTOU"))


def _remedies(process: ProcessPosition) -> Iterator[str]:
    """Who keeps the process from running, and how it goes on."""
    signals = sorted({thread.stopped_by for thread in process.threads if thread.stopped_by})
    if any(thread.state == "stopped" for thread in process.threads):
        by = f" by {' and '.join(signals)}" if signals else ""
        how = f"kill -CONT {process.pid}"
        if _OF_TERMINALS.issuperset(signals) and signals:
            how = "fg in its shell, as it uses a terminal in the background"
        yield f"STOPPED{by}. To resume it: {how}"
    tracers = {_named(each) for thread in process.threads for each in thread.holders
               if each.relation == "tracer"}  # fmt: skip
    if tracers:
        yield f"STOPPED by its tracer {', '.join(sorted(tracers))}."
    if process.freezers:
        commands = " && ".join(map(thawing_command, process.freezers))
        yield f"FROZEN by its cgroup. To thaw it: {commands}"
    if process.throttling:
        yield f"THROTTLED: the quota of CPU time is used up, of {', '.join(process.throttling)}"


def _waited_for(
    process: ProcessPosition,
    in_circles: Set[int],
    everyone: Mapping[int, ThreadPosition],
    layout: Layout,
) -> Iterator[str]:
    """For whose locks threads of the process wait, and where those owners stand."""
    waiters: dict[tuple[Holder, ...], int] = {}
    for thread in process.threads:
        if thread.owners and thread.tid not in in_circles:
            waiters[thread.owners] = waiters.get(thread.owners, 0) + 1
    by_count = sorted(waiters.items(), key=lambda each: -each[1])
    for owners, count in by_count[:MOST_OWNERS]:
        wait = "1 thread waits" if count == 1 else f"{count:,} threads wait"
        yield from layout.comment(f"{wait} for a lock of {_owners(owners, everyone)}.", "verdict")
    if others := by_count[MOST_OWNERS:]:
        count = sum(each for _, each in others)
        yield from layout.comment(
            f"Locks of {len(others):,} other {_plural(len(others), 'owner')} keep"
            f" {count:,} {_plural(count, 'thread')} waiting: see the threads below.",
            "verdict",
        )


def _owners(owners: Sequence[Holder], everyone: Mapping[int, ThreadPosition]) -> str:
    if len(owners) > 1:
        return f"{' and '.join(map(_named, owners))}, which share it"
    (owner,) = owners
    position = everyone.get(owner.tid)
    if position:
        return f"{_named(owner)}, which is {_state(position)}{_call(position)}"
    return f"{_named(owner)}, which is {owner.held}" if owner.held else _named(owner)


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def _grouped(
    threads: Iterable[ThreadPosition], in_circles: set[int]
) -> Iterator[list[ThreadPosition]]:
    """Threads that stand alike, together; whoever is kept by somebody comes first."""
    groups: dict[object, list[ThreadPosition]] = {}
    for thread in threads:
        groups.setdefault(_alike(thread), []).append(thread)
    yield from sorted(
        groups.values(),
        key=lambda group: (
            group[0].tid not in in_circles,
            not group[0].owners,
            _ORDER.index(group[0].state),
            group[0].tid,
        ),
    )


def _alike(thread: ThreadPosition) -> object:
    if thread.state in ("running", "exited"):
        return thread.tid
    # Each thread has its own frames of an interpreter, which calls C in several ways.
    frames = [frame for frame in thread.user if frame.language] or thread.user
    user = tuple(
        (None if frame.language else frame.address, frame.name, frame.object, frame.source)
        for frame in frames
    )
    kernel = tuple(frame.address for frame in thread.kernel)
    waits = _without_timeout(thread)
    # Of one stack the times and futexes differ.
    if thread.reason in ("clock", "futex") and not thread.holders and thread.user_end == "whole":
        waits = None
    return thread.state, thread.syscall, waits, thread.holders, kernel, user, thread.remark


def _without_timeout(thread: ThreadPosition) -> str | None:
    return thread.waits_for and thread.waits_for.partition(f", {OR_A_TIMEOUT}")[0]


def _threads(alike: list[ThreadPosition], layout: Layout) -> Iterator[str]:
    first = alike[0]
    names = [_name(thread) for thread in alike[:MOST_NAMED]]
    if len(alike) > MOST_NAMED:
        names.append(f"{len(alike) - MOST_NAMED:,} more")
    head = f"{', '.join(names)}: {_state(first)}{_how_long(alike)}{_call(first)}"
    for line in layout.wrapped(head, "", _INDENT):
        yield layout.heading(line)
    if (waits_for := _waits_for(first)) is not None:
        others = ""
        if any(thread.waits_for != first.waits_for for thread in alike):
            others = f" (this is {_name(first)}; the others' differ)"
        yield from layout.wrapped(f"waits for: {waits_for}{others}", _INDENT, _FRAME)
    for holder in first.holders:
        # The words of Python's interpreter lock name the holder and its function.
        if f"held by {_named(holder)}" in (waits_for or ""):
            continue
        # A peer's state is among the words.
        if holder.relation in ("owner", "reader", "tracer") or (
            holder.relation == "child" and holder.held and first.state in _WAITING
        ):
            words = {"reader": "shared with readers, the last"}
            if first.reason == "futex":
                words["child"] = "thread"
            word = words.get(holder.relation, holder.relation)
            held = f", {holder.held}" if holder.held else ""
            yield from layout.wrapped(f"{word}: {_named(holder)}{held}", _INDENT, _FRAME)
    if first.remark is not None:
        yield from layout.wrapped(first.remark, _INDENT, _FRAME)
    yield from _stack("kernel stack:", _within(first.kernel), layout)
    yield from _stack("user stack:", first.user, layout)
    if first.user_end not in (None, "whole"):
        yield f"{_FRAME}… (its callers are not known)"


def _state(thread: ThreadPosition) -> str:
    if thread.state == "running":
        return f"running on CPU {thread.cpu}"
    if thread.state == "runnable":
        return f"runnable, waiting for CPU {thread.cpu}"
    if thread.state == "uninterruptible":
        return "in uninterruptible sleep"
    return thread.state


def _how_long(alike: list[ThreadPosition]) -> str:
    known = [thread.at_least_ns for thread in alike if thread.at_least_ns is not None]
    if alike[0].state in ("running", "exited"):
        return ""
    # The clock of a CPU's run queue can be behind by the whole time.
    if not known or not min(known):
        return ", since when is not known"
    return f" for at least {brief(min(known))}"


def _call(thread: ThreadPosition) -> str:
    return f", in {thread.syscall}" if thread.syscall else ""


def _waits_for(thread: ThreadPosition) -> str | None:
    if thread.state not in _WAITING:
        return None
    phrase = PHRASES.get(thread.reason) if thread.reason else None
    object_ = None if thread.waits_for is None else printable(thread.waits_for)
    if thread.reason in _IN_THE_KERNEL and phrase is not None:
        if thread.kernel_lock:
            phrase = f"the kernel's lock {printable(thread.kernel_lock)}"
        return phrase if object_ is None else f"{phrase}, for {object_}"
    if thread.reason == "pipe" and thread.syscall in OPENS:
        return f"somebody to open the other end of the FIFO {object_ or '(not known)'}"
    return object_ or phrase


def _within(frames: Sequence[StackFrame]) -> Sequence[StackFrame]:
    """A kernel stack without what each call begins with."""
    return [frame for frame in frames if frame.name not in _ENTRIES]


def _stack(heading: str, frames: Sequence[StackFrame], layout: Layout) -> Iterator[str]:
    if frames:
        yield f"{_INDENT}{heading}"
    for frame in frames:
        text = _python_text(frame) if isinstance(frame, UserFrame) and frame.language else None
        yield from layout.wrapped(text or frame_text(frame), _FRAME, _FRAME + "  ")


def _python_text(frame: UserFrame) -> str:
    """A frame of Python: `function (file.py:LINE)`."""
    place = printable((frame.source or frame.object or "").rpartition("/")[2])
    return f"{printable(frame.name or '')} ({place})"


def _name(thread: ThreadPosition) -> str:
    return f"{printable(thread.name)} ({thread.tid})"


def _named(holder: Holder) -> str:
    return f"{printable(holder.name)} ({holder.tid})"
