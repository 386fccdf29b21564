"""The options that say in which forms Samples are reported, and the outputs of these."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kernel_delay.commands.options import arguments
from kernel_delay.errors import KernelDelayError, OutputError, UsageError, naming
from kernel_delay.host.private_file import STDOUT_NAMES, PrivateFile, remove
from kernel_delay.host.safe_folders import who_may_replace
from kernel_delay.reporters import print_message

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from kernel_delay.analysis.processes import Windows
    from kernel_delay.model import RecordingHeader, Sample, SkippedWindow
    from kernel_delay.reporters.layout import Color, Layout

STDOUT = "-"
"""What every spelling of the standard output becomes."""

Report = Callable[["Sample"], None]


def add_json(parser: argparse._ActionsContainer, each: str = "sample") -> argparse.Action:
    """Add the option for JSON, a line for `each`."""
    return parser.add_argument(
        "--json",
        dest="json_file",
        nargs="?",
        const=STDOUT,
        type=text_file,
        metavar="FILE",
        help=f"write a line of JSON for each {each}; without FILE or with -, write to stdout"
        " instead of the text",
    )


def add_json_alone(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add the option for one JSON in place of the text, of commands that measure nothing."""
    return parser.add_argument("--json", action="store_true", help="write JSON instead of the text")


def add_quiet(
    parser: argparse._ActionsContainer, effect: str = "only print the summary"
) -> argparse.Action:
    """Add the option that leaves single events out of the text."""
    return parser.add_argument("-q", "--quiet", action="store_true", help=effect)


def text_file(text: str) -> str:
    """A file for what is text, which the standard output takes too."""
    return STDOUT if text in STDOUT_NAMES else os.fspath(arguments.path(text))


def own_file(text: str) -> Path:
    """A file for what is no text; ArgumentTypeError for stdout."""
    if text in STDOUT_NAMES:
        raise argparse.ArgumentTypeError("must be a file: stdout has the report")
    return arguments.path(text)


def add_folded(parser: argparse._ActionsContainer) -> argparse.Action:
    """Add the option for folded stacks."""
    return parser.add_argument(
        "--folded",
        type=text_file,
        metavar="FILE",
        help="write the stacks, weighted by time, for flame graph tools; with -, to stdout"
        " instead of the text",
    )


def open_reports(
    json_file: str | None,
    folded_file: str | None,
    stack: ExitStack,
    layout: "Layout",
    *,
    summary: bool = False,
) -> list[Report]:
    """What takes each Sample to its outputs, at once; `stack` closes the files.

    Raises OutputError where an output can't be opened, before anything is
    measured for it, and UsageError where two are the standard output.
    """
    reports: list[Report] = []
    if json_file == folded_file == STDOUT:
        raise UsageError("--json and --folded can't both go to the standard output")
    if json_file == STDOUT:
        reports.append(_json_report(stdout()))
    elif folded_file == STDOUT:
        reports.append(_folded_report(stdout()))
    else:
        reports.append(TextReport(stdout(), layout, summary=summary))
    if json_file is not None and json_file != STDOUT:
        reports.append(_json_report(_open(json_file, stack)))
    if folded_file is not None and folded_file != STDOUT:
        reports.append(_folded_report(_open(folded_file, stack)))
    return reports


def open_json(json_file: str | None, stack: ExitStack) -> Callable[[object], None] | None:
    """What writes each thing as a line of JSON, at once; None if that is not asked for.

    `stack` closes the file. Raises OutputError where it can't be opened.
    """
    if json_file is None:
        return None
    from kernel_delay.reporters import json

    file = stdout() if json_file == STDOUT else _open(json_file, stack)
    return lambda what: _write(file, [json.ascii_json(what), "\n"])


def has_text(json_file: str | None) -> bool:
    """Whether the text goes to stdout, or JSON in its place; OutputError where that is closed."""
    stdout()
    return json_file != STDOUT


def refuse_inputs(inputs: Iterable[str], outputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """Raise UsageError where an output is a file that is read: it would be cut before that."""
    read = [name for name in inputs if os.path.isfile(name)]
    for output in outputs:
        if output is None or not os.path.isfile(output):
            continue
        for name in read:
            if os.path.samefile(name, output):
                raise UsageError(f"{name} is an input: write to another file")


# What each command calls its outputs.
_OUTPUTS = ("json_file", "recording_file", "html", "flamegraph", "folded", "pcap", "perfetto")


def refuse_removed_folder(args: argparse.Namespace) -> None:
    """Raise OutputError for an output in the current folder where that was removed."""
    for output in given(args):
        try:
            os.path.abspath(output)
        except FileNotFoundError:
            raise OutputError(
                f"can't write {os.fspath(output)!r}: the current folder was removed: change to"
                " another"
            ) from None


def refuse_same_outputs(args: argparse.Namespace) -> None:
    """Raise UsageError where two outputs are one file: each would be written over the other."""
    seen: set[str] = set()
    for name in _OUTPUTS:
        output = getattr(args, name, None)
        if output is None or output == STDOUT or not isinstance(output, str | Path):
            continue
        path = os.path.realpath(output)
        if os.path.exists(path) and not os.path.isfile(path):
            continue
        if path in seen:
            raise UsageError(f"{output} is given for two outputs: name a file for each")
        seen.add(path)


def warn_of_others(args: argparse.Namespace) -> None:
    """Warn of who else can replace an output, by the folder that it is written to."""
    for output in given(args):
        who = who_may_replace(output)
        if who is not None:
            print_message(f"{who}, who can remove or replace {output}")


def given(args: argparse.Namespace) -> list[Path]:
    """Return the files and the folder that are written to."""
    outputs = (getattr(args, name, None) for name in (*_OUTPUTS, "folder"))
    return [
        Path(output) for output in outputs if isinstance(output, str | Path) and output != STDOUT
    ]


def has_other(args: argparse.Namespace) -> bool:
    """Return whether there is an output beside the text, or in its place."""
    return any(getattr(args, name, None) is not None for name in _OUTPUTS)


def print_line(text: str) -> None:
    """Print a line for whoever reads the standard output as it comes."""
    _write(stdout(), [f"{text}\n"])


def report_to_all(reports: Iterable[Report], sample: "Sample") -> None:
    """Give each output the sample, then raise what kept the first one from it; the others are said.

    What can't be measured again is not to be lost for one that has no room.
    """
    failures: list[Exception] = []
    for report in reports:
        try:
            report(sample)
        except (KernelDelayError, OSError) as error:
            failures.append(error)
    # An output may have had several reports.
    for line in dict.fromkeys(map(_line_of, failures)):
        if line != _line_of(failures[0]):
            print_message(line)
    if failures:
        raise failures[0]


def _line_of(error: Exception) -> str:
    """What the command line reports of it."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def perfetto_report(path: Path, header: "RecordingHeader", stack: ExitStack) -> Report:
    """What writes the calls and the timeline of each Sample as a Perfetto trace.

    `stack` closes the file. Raises OutputError where it can't be opened, UsageError with a Sample
    that has neither.
    """
    from kernel_delay.reporters.perfetto import Trace

    file = _open(path, stack).buffer
    trace = Trace(header)

    def report(sample: "Sample") -> None:
        if sample.syscall_events is None and sample.timeline is None:
            raise UsageError(
                "--perfetto needs single calls or a timeline: record with -s or --timeline"
            )
        with naming(os.fspath(path)):
            file.writelines(trace.sample(sample))
            file.flush()

    return report


def report_skipped(window: "SkippedWindow", json_file: str | None, folded_file: str | None) -> None:
    """Print to a reader that a window was too short; it is no sample, so no file has it."""
    from kernel_delay.reporters import text

    if STDOUT not in (json_file, folded_file):
        _write(stdout(), [text.render_skipped(window)])


def _open(path: str | Path, stack: ExitStack) -> TextIO:
    private = PrivateFile(Path(path))
    file = io.TextIOWrapper(io.BufferedWriter(_Emptying(private, path)), encoding="utf-8")
    stack.push(partial(_close, file, private, Path(path)))
    return file


class _Emptying(io.FileIO):
    """A PrivateFile that is emptied when there is something to write."""

    def __init__(self, private: PrivateFile, path: str | Path) -> None:
        super().__init__(private.fd, "w")
        self.name = os.fspath(path)  # as errors name it
        self._private = private

    def write(self, data: "ReadableBuffer") -> int:
        self._private.empty()
        return super().write(data)


def _close(
    file: TextIO,
    private: PrivateFile,
    path: Path,
    kind: type[BaseException] | None,
    *_: object,
) -> None:
    """Close a file; a run that failed leaves none that is empty, and what was there before."""
    has_failed = kind is not None
    with naming(os.fspath(path)):
        try:
            file.flush()
            if not has_failed:
                private.empty()
        except OSError:
            has_failed = True
            raise
        finally:
            if has_failed and not os.fstat(file.fileno()).st_size:
                remove(path, file.fileno())
            file.close()


def stdout() -> TextIO:
    """The standard output; OutputError where there is none: nobody would read the report."""
    # Python's stdout is None where the shell closed it (>&-).
    if sys.stdout is None:
        raise OutputError("standard output is closed: nothing could be reported")
    return sys.stdout


class Head:
    """The head of a text report: where, of what and by which version was measured."""

    def __init__(self, args: argparse.Namespace, header: "RecordingHeader") -> None:
        """Of a report to these outputs; no text, no head."""
        self._header = None if STDOUT in (args.json_file, args.folded) else header
        self._color: Color = args.color

    def print(self) -> None:
        """Print it above the first thing that there is to report; later there is nothing to do."""
        if self._header is None:
            return
        from kernel_delay.reporters.layout import Layout
        from kernel_delay.reporters.recording_header import head_lines

        file = stdout()
        lines = head_lines(self._header, as_shown(Layout(color=self._color), file))
        _write(file, (f"{line}\n" for line in lines))
        self._header = None


class TextReport:
    """The text of each window, printed when the Samples of all its processes are there."""

    def __init__(self, file: TextIO, layout: "Layout", *, summary: bool) -> None:
        """Print to `file`."""
        self._file = file
        self._layout = as_shown(layout, file)
        self._summary = summary

    @cached_property
    def _windows(self) -> "Windows":
        # Not before the first window opens, which would wait for it.
        from kernel_delay.analysis.processes import Windows

        return Windows()

    def __call__(self, sample: "Sample") -> None:
        """Take a Sample."""
        for window in self._windows.take(sample):
            self._print(window)

    def finish(self) -> None:
        """Print what there is of a window that is not whole: a recording may be cut in it."""
        for window in self._windows.rest():
            self._print(window)

    def _print(self, window: "Sequence[Sample]") -> None:
        from kernel_delay.reporters import text
        from kernel_delay.reporters.processes import together

        sample, processes = together(window)
        if self._summary:
            _write(self._file, [text.render_summary(sample, self._layout, processes)])
        else:
            _write(self._file, text.chunks(sample, self._layout, processes))


def finish_reports(reports: Iterable[Report]) -> None:
    """Print what is left to print of a text."""
    for report in reports:
        if isinstance(report, TextReport):
            report.finish()


def as_shown(layout: "Layout", file: TextIO) -> "Layout":
    """The layout as the file can show it: a terminal has a width, and may have colours."""
    if not file.isatty() and layout.color == "auto" and not os.environ.get("FORCE_COLOR"):
        return layout  # rich takes a while to import
    from kernel_delay.reporters.terminal import shown_on

    return shown_on(layout, file)


def _json_report(file: TextIO) -> Report:
    from kernel_delay.reporters import json

    return lambda sample: _write(file, json.chunks(sample))


def _folded_report(file: TextIO) -> Report:
    from kernel_delay.reporters import folded

    return lambda sample: _write(file, folded.lines(sample))


def _write(file: TextIO, chunks: Iterable[str]) -> None:
    """Write and flush: what reads a pipe has each sample when it was taken."""
    with naming("standard output" if file is sys.stdout else file.name):
        file.writelines(chunks)
        file.flush()
