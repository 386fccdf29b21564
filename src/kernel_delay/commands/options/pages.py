"""The options for pages and pictures: what is written once, when there are no more Samples."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kernel_delay.commands.options.outputs import own_file
from kernel_delay.errors import KernelDelayError, UsageError
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from kernel_delay.host.private_file import WholeFile
    from kernel_delay.model import RecordingHeader, Sample
    from kernel_delay.reporters.page import monitor_page

FLAME_GRAPHS = (".svg", ".html")

CHUNK = 1 << 20
"""So much is written at once, about."""

MOST_NOTES = 100


_OfEvents = TypeVar("_OfEvents", bound="monitor_page.Contents")


def add_arguments(parser: argparse.ArgumentParser) -> Sequence[argparse.Action]:
    """Add the options."""
    pages = parser.add_argument_group("pages for a browser")
    return [
        add_html(
            pages,
            "write a page for a browser: verdict, threads, flame graphs and, with -s or"
            " --timeline, a timeline",
        ),
        pages.add_argument(
            "--flamegraph",
            type=_flame_graph,
            metavar="OUT",
            help="write a flame graph of the time in single system calls: .svg is a picture,"
            " .html a page with zoom and search",
        ),
        pages.add_argument(
            "--flamegraph-polls",
            action="store_true",
            help="include polls in the picture; the page always has both",
        ),
    ]


def add_html(
    parser: argparse._ActionsContainer,
    what: str = "write a page for a browser with charts over time, tables and the summary",
) -> argparse.Action:
    """Add the option for a page; `what` it shows."""
    return parser.add_argument("--html", type=own_file, metavar="OUT", help=what)


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for a flame graph of what is not measured, or not asked for."""
    if args.flamegraph_polls and args.flamegraph is None:
        raise UsageError("--flamegraph-polls needs --flamegraph")
    if args.flamegraph is not None and args.event_ns is None:
        raise UsageError("--flamegraph needs --syscall-events")


class Contents(Protocol):
    """What a page shows."""

    def add(self, sample: "Sample") -> None:
        """Count a Sample in."""

    def skip(self) -> None:
        """Count a window that was too short."""

    def note(self, text: str) -> None:
        """Take a remark."""


class Page:
    """A file that takes each Sample and is written at the end."""

    def __init__(self, path: Path, contents: Contents, render: Callable[[], Iterable[str]]) -> None:
        """Raise OutputError where the file can't be written."""
        from kernel_delay.host.private_file import WholeFile

        self._file = WholeFile(path)
        self.contents = contents
        self._render = render
        self.is_ended = False

    def finish(self) -> None:
        """Write it. Raises OutputError where there is no room for it."""
        self.is_ended = True
        _write(self._file, self._render())


class EventPage(Generic[_OfEvents]):
    """The page of a monitor, written at the end; `contents` take what it sees."""

    def __init__(
        self,
        path: Path,
        header: "RecordingHeader | None",
        contents: _OfEvents,
    ) -> None:
        """Raise OutputError where the file can't be written."""
        from kernel_delay.host.private_file import WholeFile

        self._file = WholeFile(path)
        self._header = header
        self._notes: list[str] = []
        self.contents = contents

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read."""
        if len(self._notes) < MOST_NOTES:
            self._notes.append(text)

    def finish(self, summary: str, missed: Sequence[str]) -> None:
        """Write it; `missed` says, a line each, what was not seen. Raises as Page.finish() does."""
        from kernel_delay.reporters.page import monitor_page

        notes = (*self._notes, *missed)
        pieces = monitor_page.render(self._header, self.contents, summary, notes)
        _write(self._file, pieces)


def write_page(path: Path, pieces: Iterable[str]) -> None:
    """Write a page to that file. Raises OutputError where it can't be written."""
    from kernel_delay.host.private_file import WholeFile

    _write(WholeFile(path), pieces)


def _write(page: "WholeFile", pieces: Iterable[str]) -> None:
    waiting = bytearray()
    with page.writing() as file:
        for piece in pieces:
            waiting += piece.encode()
            if len(waiting) > CHUNK:
                file.write(bytes(waiting))
                waiting.clear()
        file.write(bytes(waiting))


def open_pages(args: argparse.Namespace, header: "RecordingHeader") -> list[Page]:
    """The pages that are asked for; `header` says what they are of.

    Raises OutputError where one can't be written, before anything is measured for it.
    """
    pages = []
    if args.html is not None:
        from kernel_delay.reporters import page

        contents = page.Contents(header)
        pages.append(Page(args.html, contents, lambda: page.document_of(contents)))
    if args.flamegraph is not None:
        from kernel_delay.reporters.page.flame_graph import FlameGraph

        graph = FlameGraph(polls=args.flamegraph_polls)
        render = graph.svg if args.flamegraph.suffix == ".svg" else graph.html
        pages.append(Page(args.flamegraph, graph, render))
    return pages


def save(pages: Sequence[Page]) -> None:
    """Write those that are not yet, where another output has failed; print what keeps one from it.

    Nothing is raised: the failure of the other output is the command's.
    """
    for page in pages:
        if not page.is_ended:
            with suppress(BrokenPipeError):
                try:
                    page.finish()
                except (KernelDelayError, OSError) as error:
                    print_message(str(error))


def noting(pages: Sequence[Page], notify: Callable[[str], None]) -> Callable[[str], None]:
    """What prints a message for the user, and for the readers of the pages too."""

    def print_all(text: str) -> None:
        notify(text)
        for page in pages:
            page.contents.note(text)

    return print_all


def _flame_graph(text: str) -> Path:
    path = Path(text)
    if path.suffix not in FLAME_GRAPHS:
        raise argparse.ArgumentTypeError(f"must end in .svg or .html, not {text!r}")
    return path
