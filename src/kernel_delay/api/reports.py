"""What the commands report and compare, as text and pages, from Python."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_delay.api.recording import Recording
from kernel_delay.model import Sample
from kernel_delay.model.notebook import paragraph, section, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernel_delay.analysis.comparison import Change
    from kernel_delay.model import RecordingHeader

Samples = Sample | Iterable[Sample]
"""One, or several; a Recording is an iterable of its own."""


def report(samples: Samples, *, summary: bool) -> str:
    """Return the text of `kernel-delay report`, as in a pipe; what is read may raise."""
    from kernel_delay.reporters import text
    from kernel_delay.reporters.layout import IN_A_PIPE
    from kernel_delay.reporters.processes import together
    from kernel_delay.reporters.recording_header import head_lines

    render = text.render_summary if summary else text.render
    lines = head_lines(samples.header, IN_A_PIPE) if isinstance(samples, Recording) else ()
    joined = map(together, _windows(samples))
    windows = (render(sample, IN_A_PIPE, processes) for sample, processes in joined)
    return "".join([*(f"{line}\n" for line in lines), *windows])


def write_html(samples: Samples, path: str | os.PathLike[str]) -> None:
    """Write the page of `--html`. Raises KernelDelayError; what is read may raise."""
    from kernel_delay.reporters.page import render

    header: RecordingHeader | None = samples.header if isinstance(samples, Recording) else None
    _write(path, render(header, _each(samples)))


def _each(samples: Samples) -> Iterable[Sample]:
    return (samples,) if isinstance(samples, Sample) else samples


def _windows(samples: Samples) -> "Iterator[Sequence[Sample]]":
    from kernel_delay.analysis.processes import Windows

    windows = Windows()
    for sample in _each(samples):
        yield from windows.take(sample)
    yield from windows.rest()


def _write(path: str | os.PathLike[str], pieces: Iterable[str]) -> None:
    from kernel_delay.commands.options.pages import write_page

    write_page(Path(path), pieces)


class Comparison:
    """What changed from one recording to another, beyond chance; str() is the command's text.

    Attributes:
        changes: All figures that are on both sides, what matters most first.
    """

    def __init__(self, before: str | os.PathLike[str], after: str | os.PathLike[str]) -> None:
        """Compare. Raises KernelDelayError, also where one of them is not whole."""
        from kernel_delay.commands.compare_inputs import compare_sides, read_side

        self._sides = read_side(os.fspath(before)), read_side(os.fspath(after))
        if damages := [damage for side in self._sides for damage in side.damages]:
            raise damages[0]
        self._comparison = compare_sides(*self._sides)
        self.changes: tuple[Change, ...] = self._comparison.changes

    def __str__(self) -> str:
        """Return the text of the command."""
        from kernel_delay.reporters.comparison import lines

        before, after = self._sides
        return "".join(lines(before.side, after.side, self._comparison))

    def __repr__(self) -> str:
        """Say how many figures changed."""
        return f"<Comparison: {len(self._changed())} of {len(self.changes)} figures changed>"

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `kernel-delay compare --html`. Raises KernelDelayError."""
        from kernel_delay.reporters.page.comparison import render

        before, after = self._sides
        _write(path, render(before.side, after.side, self._comparison))

    def _changed(self) -> "list[Change]":
        return [change for change in self.changes if change.kind in ("more", "less")]

    def _repr_html_(self) -> str:
        """Show what changed in a notebook."""
        from kernel_delay.reporters.changes import difference_text, interval_text, value_text
        from kernel_delay.reporters.comparison import remarks

        before, after = self._sides
        rows = [
            (
                change.threads,
                change.name,
                value_text(change, change.before),
                value_text(change, change.after),
                difference_text(change),
                interval_text(change),
            )
            for change in self._changed()
        ]
        headings = ("THREADS", "FIGURE", "BEFORE", "AFTER", "CHANGE", "INTERVAL")
        notes = paragraph(" ".join(remarks(before.side, after.side, self._comparison)))
        return section(repr(self)[1:-1], table(headings, rows), notes)
