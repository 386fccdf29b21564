"""What the text says of a timeline: how much there is of it, and what is not."""

from collections.abc import Iterator

from kernel_delay.model import Sample


def timeline_remarks(sample: Sample) -> Iterator[str]:
    """The remarks; none without a timeline. One on what is missing begins with WARNING."""
    if sample.timeline is None:
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
