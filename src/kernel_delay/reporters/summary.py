"""A Sample as one line a thread, with a bar of where its time went, and the verdict."""

from collections.abc import Iterator

from kernel_delay.model import Sample
from kernel_delay.reporters.layout import IN_A_PIPE, Layout
from kernel_delay.reporters.overview import overview
from kernel_delay.reporters.processes import ONE, Processes
from kernel_delay.reporters.sleepers import sleepers
from kernel_delay.reporters.text import closing, in_order, process_lines, timestamps
from kernel_delay.reporters.verdict_block import verdict


def render(sample: Sample, layout: Layout = IN_A_PIPE, processes: Processes = ONE) -> str:
    """The summary of one window; of several `processes`, as together() has them."""
    return "".join(f"{line}\n" for line in _report(sample, layout, processes))


def _report(sample: Sample, layout: Layout, processes: Processes) -> Iterator[str]:
    shown, sleeping = in_order(sample, layout)
    yield from timestamps(sample, layout)
    yield from process_lines(sample, layout, processes)
    if not processes:
        yield from verdict(sample, layout)
    yield from overview(shown, layout, processes)
    yield from sleepers(sample, sleeping, layout, processes)
    yield from closing(sample, layout)
