"""What the text says of a timeline: how much there is of it, and what is not."""

from collections.abc import Iterator

from kernel_delay.analysis.timeline import whole_parts
from kernel_delay.analysis.verdict.formatting import length
from kernel_delay.model import Round, Sample


def timeline_remarks(sample: Sample) -> Iterator[str]:
    """The remarks; none without a timeline. One on what is missing begins with WARNING.

    Of threads that were summed up, of all processes, there is none.
    """
    if sample.timeline is None or not sample.target.pid:
        return
    if sample.round is not None:
        yield from _round_remarks(sample, sample.round)
        return
    yield (
        f"The timeline has {len(sample.timeline):,} slices of time, thread by thread: --json prints"
        " them, and of a recording (-o) `report --perfetto` and --html draw them."
    )
    lost = sample.lost
    parts = (
        (lost.timeline_interrupts, "interrupts"),
        (lost.timeline_states, "states"),
        (lost.timeline_modes, "calls and page faults"),
    )
    missing = [f"{count:,} {what}" for count, what in parts if count]
    if missing:
        yield (
            f"WARNING: the timeline had no room for {', '.join(missing)}: its slices do not add up"
            " to the tables, which have all. A shorter window or a larger --max-slices helps."
        )


def _round_remarks(sample: Sample, round_: Round) -> Iterator[str]:
    slices = sample.timeline or ()
    if not slices:
        yield "WARNING: there was no room for a timeline of this round."
        return
    reported = f"The timeline has {len(slices):,} slices of time"
    where = "of a recording (-o) `report --perfetto` and --html draw them, and --json prints them"
    if not round_.slices_left_out:
        yield f"{reported}, of all of the round: {where}."
        return
    parts = whole_parts(slices, sample.window)
    left_out = f"{round_.slices_left_out:,} between are left out (--max-slices)"
    if parts is None:
        yield f"{reported}: {left_out}, all of them interrupts; {where}."
        return
    first, last = map(length, parts)
    yield f"{reported}, of the first {first} of the round and its last {last}: {left_out}; {where}."
