"""A Sample as one line a thread, with a bar of where its time went, and the verdict."""

from collections.abc import Iterator

from kernel_delay.model import Sample, Thread, ThreadTime
from kernel_delay.printable import printable
from kernel_delay.reporters.text import Heading, remarks, timestamps, verdict

BAR_WIDTH = 40

LEGEND = (
    "U user, K kernel, G guest, I interrupts, R ready, B blocked, S stopped, T throttled,"
    " F frozen, - absent, ? unaccounted"
)


def render(sample: Sample, heading: Heading = str) -> str:
    """The summary of one window; `heading` may add colour to a heading."""
    return "".join(f"{line}\n" for line in _report(sample, heading))


def _report(sample: Sample, heading: Heading) -> Iterator[str]:
    yield from timestamps(sample.window)
    shares = "".join(f"{name:>9}" for name in ("USER%", "KERNEL%", "IRQ%", "READY%", "BLOCKED%"))
    yield heading(f"{'TID':>10} {'THREAD':16}{shares} {'STOPPED%':>8}  {LEGEND}")
    timed = [(thread, thread.time) for thread in sample.threads if thread.time is not None]
    for thread, time in sorted(timed, key=lambda pair: (-lost_ns(pair[1]), pair[0].tid)):
        yield _line(thread, time)
    yield from verdict(sample)
    yield from remarks(sample)


def lost_ns(time: ThreadTime) -> int:
    """What the kernel and the machine had of a thread's time, and not its program or its choice."""
    kept_ns = time.ready_ns + time.throttled_ns + time.frozen_ns
    return time.kernel_ns + time.hard_irq_ns + time.soft_irq_ns + kept_ns


def _line(thread: Thread, time: ThreadTime) -> str:
    parts = _parts(time)
    window_ns = sum(parts.values()) or 1
    shares = [f"{100 * parts[letter] / window_ns:8.2f}" for letter in "UKIRBS"]
    line = f"{thread.tid:10} {printable(thread.name):16.16} {' '.join(shares)}  |{bar(parts)}|"
    return line if thread.threads == 1 else f"{line} {thread.threads:,} threads that ended"


def _parts(time: ThreadTime) -> dict[str, int]:
    return {
        "U": time.user_ns,
        "K": time.kernel_ns,
        "G": time.guest_ns,
        "I": time.hard_irq_ns + time.soft_irq_ns,
        "R": time.ready_ns,
        "B": time.blocked_ns,
        "S": time.stopped_ns,
        "T": time.throttled_ns,
        "F": time.frozen_ns,
        "-": time.absent_ns,
        "?": time.unaccounted_ns,
    }


def bar(parts: dict[str, int]) -> str:
    """BAR_WIDTH letters, of each as many as its part's share; those most cut short round up."""
    whole = sum(parts.values())
    if not whole:
        return " " * BAR_WIDTH
    widths = {letter: part * BAR_WIDTH // whole for letter, part in parts.items()}
    left = BAR_WIDTH - sum(widths.values())
    for letter in sorted(parts, key=lambda letter: -(parts[letter] * BAR_WIDTH % whole))[:left]:
        widths[letter] += 1
    return "".join(letter * width for letter, width in widths.items())
