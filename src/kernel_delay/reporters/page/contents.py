"""What the page shows, as data: of each Sample, and of all of them together."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from kernel_delay.analysis.processes import Windows, as_one
from kernel_delay.analysis.states import PART_NAMES
from kernel_delay.analysis.totals import Totals
from kernel_delay.analysis.verdict import is_wait
from kernel_delay.analysis.verdict.asleep import slept_long
from kernel_delay.formatting import printable
from kernel_delay.model import Finding, RecordingHeader, Sample
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page.calls import Calls, PageCalls
from kernel_delay.reporters.page.coverage import CoverageTotals, coverage_tables
from kernel_delay.reporters.page.rows import PageTable
from kernel_delay.reporters.page.slices import PageTimeline, Timeline
from kernel_delay.reporters.page.threads import PageThread, page_thread
from kernel_delay.reporters.processes import together
from kernel_delay.reporters.remarks import doubt, remarks

DETAIL_BYTES = 32 << 20
"""For the threads of single samples; later samples have totals and accounts alone."""

ACCOUNT_BYTES = 8 << 20
"""For these accounts; later samples are in the totals and the verdict alone."""

MOST_NOTES = 100

_SHOWN_NAMES = 3


class PageFinding(Struct, frozen=True):
    """A finding of the verdict. `evidence` are names and figures; those in `…_ns` are times.

    `waits`: whether what it says kept the thread from work is not known.
    """

    rule: str
    who: str
    share: float
    remark: bool
    waits: bool
    text: str
    advice: str | None
    evidence: tuple[tuple[str, int], ...]


class PageSample(Struct, frozen=True):
    """A window. `since_ns` is its start, from the first's; `time_ns` the sum over its threads.

    `doubt` is why nothing can be said for it, None if nothing is doubtful. `slept_long`: a thread
    slept for a third of it. `remarks` say what the reader must know of how it went. `coverage` are
    the tables of what the process counted itself. `threads` is None where there was no more room
    for them, and then the sample has no details; and for the only sample, whose threads and tables
    are the totals.
    """

    start_time: str
    since_ns: int
    duration_ns: int
    ended: str
    judged: bool
    doubt: str | None
    slept_long: bool
    remarks: tuple[str, ...]
    time_ns: tuple[int, ...]
    coverage: tuple[PageTable, ...]
    threads: tuple[PageThread, ...] | None


class WorstFinding(Struct, frozen=True):
    """What a rule found: `sample` is the index of where it was worst, `samples` how many had it."""

    finding: PageFinding
    sample: int
    samples: int


class PageData(Struct, frozen=True):
    """All that the page shows. `samples` come apart, as JSON: see Contents.data().

    `samples_measured` are all of them, `measured_ns` their windows, and `until_ns` is when the
    last ended, from the first's start: on the page or not.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    findings: tuple[WorstFinding, ...]
    remarks: tuple[str, ...]
    skipped: int
    samples_measured: int
    measured_ns: int
    until_ns: int
    threads: tuple[PageThread, ...]
    coverage: tuple[PageTable, ...]
    calls: PageCalls | None
    timeline: PageTimeline | None


def _as_one(window: Sequence[Sample]) -> Sample:
    """A window's Samples as one, whose findings and threads say of which process each is."""
    sample = as_one(window, name_processes=True)
    if len(window) == 1:
        return sample
    said, _ = together(window)
    return msgspec.structs.replace(sample, verdict=said.verdict)


class Contents:
    """The page's data, as Samples come; bounded, whatever they are."""

    def __init__(self, header: RecordingHeader | None) -> None:
        """Begin with none; the header, where there is one, says what they are of."""
        self._header = header
        self._first: Sample | None = None
        self._last: Sample | None = None
        self._samples: list[str] = []
        self._only: list[str] = []
        self._room = DETAIL_BYTES
        self._account_room = ACCOUNT_BYTES
        self._measured = 0
        self._measured_ns = 0
        self._until_ns = 0
        # A rule's remark is on other threads than its finding.
        self._worst: dict[tuple[str, bool], WorstFinding] = {}
        self._totals = Totals()
        self._coverage = CoverageTotals()
        self._calls = Calls()
        self._timeline = Timeline()
        self._skipped = 0
        self._notes: list[str] = []
        self._windows = Windows()
        self._processes: dict[int, str] = {}

    def add(self, sample: Sample) -> None:
        """Count a Sample in; of several processes those of one window are one."""
        if sample.target.pid:
            self._processes[sample.target.pid] = sample.target.comm
        for window in self._windows.take(sample):
            self._add(_as_one(window))

    def _add(self, sample: Sample) -> None:
        if self._first is None:
            self._first = _without_details(sample)
        # Of the others there may be very many, with a million events each.
        self._last = _without_details(sample)
        first_ns = self._first.window.start_ns
        shown = page_sample(sample, first_ns)
        lean_sample = msgspec.structs.replace(shown, threads=None, coverage=())
        text, lean = ascii_json(shown), ascii_json(lean_sample)
        if not self._samples:
            self._only = [lean]
        self._note_worst(tuple(map(_finding, sample.verdict)))
        self._measured += 1
        self._measured_ns += shown.duration_ns
        self._until_ns = max(self._until_ns, shown.since_ns + shown.duration_ns)
        self._keep(text, lean)
        self._totals.add(sample)
        self._coverage.add(sample.coverage)
        self._calls.add(sample, first_ns)
        self._timeline.add(sample, first_ns)

    def _keep(self, text: str, lean: str) -> None:
        """Keep a sample as `text`, or without its details, or not: then no later one either."""
        if len(self._samples) < self._measured - 1:
            return
        if len(text) <= self._room:
            self._room -= len(text)
            self._samples.append(text)
        elif len(lean) <= self._account_room:
            self._account_room -= len(lean)
            self._samples.append(lean)

    def skip(self) -> None:
        """Count a window that was shorter than asked for, of which nothing is shown."""
        self._skipped += 1

    def note(self, text: str) -> None:
        """Take a remark on how it was measured, or read."""
        if len(self._notes) < MOST_NOTES and text not in self._notes:
            self._notes.append(text)

    def _note_worst(self, findings: Sequence[PageFinding]) -> None:
        place = self._measured
        for finding in findings:
            rule = finding.rule, finding.remark
            known = self._worst.get(rule, WorstFinding(finding, place, 0))
            if finding.share > known.finding.share:
                known = msgspec.structs.replace(known, finding=finding, sample=place)
            self._worst[rule] = known
        # Of several processes one window has several findings of a rule.
        for rule in {(finding.rule, finding.remark) for finding in findings}:
            known = self._worst[rule]
            self._worst[rule] = msgspec.structs.replace(known, samples=known.samples + 1)

    def _remarks(self) -> tuple[str, ...]:
        """What must be known of all windows together, and of how the last one ended."""
        notes = tuple(map(printable, self._notes))
        if self._last is None:
            return notes
        threads, lost = self._totals.threads(), self._totals.lost()
        whole = msgspec.structs.replace(self._last, threads=threads, lost=lost)
        return (*_said(remarks(whole)), *notes)

    @property
    def title(self) -> str:
        """What is measured: the process's name and PID, or the names of several."""
        if len(self._processes) > 1:
            names = sorted(set(self._processes.values()))
            shown = ", ".join(names[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
            return f"{len(self._processes)} processes: {printable(shown)}"
        target = self._header.target if self._header else self._first and self._first.target
        return "nothing was measured" if not target else f"{printable(target.comm)} ({target.pid})"

    def data(self) -> Iterator[str]:
        """A PageData, as JSON in pieces, and with its `samples`."""
        for window in self._windows.rest():
            self._add(_as_one(window))
        findings = [*self._worst.values()]
        if self._measured > 1:
            # Those of one sample are in the order of its verdict.
            findings.sort(key=lambda each: (each.finding.remark, -each.finding.share))
        page = PageData(
            title=self.title,
            about=tuple(about(self._header, self._first)),
            parts=PART_NAMES,
            findings=tuple(findings),
            remarks=self._remarks(),
            skipped=self._skipped,
            samples_measured=self._measured,
            measured_ns=self._measured_ns,
            until_ns=self._until_ns,
            threads=tuple(map(page_thread, self._totals.threads())),
            coverage=self._coverage.tables(),
            calls=self._calls.page(),
            timeline=self._timeline.page(),
        )
        yield ascii_json(page)[:-1] + ',"samples":['
        # The only sample's threads are those of all.
        samples = self._samples if len(self._samples) > 1 else self._only
        for place, sample in enumerate(samples):
            yield f",{sample}" if place else sample
        yield "]}"


def _without_details(sample: Sample) -> Sample:
    return msgspec.structs.replace(sample, syscall_events=None, stacks=(), timeline=None)


def _said(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line.removeprefix("# ").removeprefix("WARNING: ") for line in lines if line)


def page_sample(sample: Sample, first_ns: int) -> PageSample:
    """The Sample, as the page has it; `first_ns` is when the first one's window began."""
    window = sample.window
    threads = tuple(map(page_thread, sample.threads))
    return PageSample(
        start_time=window.start_time.isoformat(timespec="microseconds"),
        since_ns=window.start_ns - first_ns,
        duration_ns=window.duration_ns,
        ended=window.ended_by,
        judged=any(thread.time for thread in sample.threads),
        doubt=doubt(sample),
        slept_long=bool(slept_long(sample)),
        remarks=_said(remarks(sample)),
        time_ns=_sums(thread.time_ns for thread in threads),
        coverage=coverage_tables(sample.coverage),
        threads=threads,
    )


def _sums(times_ns: Iterable[tuple[int, ...] | None]) -> tuple[int, ...]:
    known = [each for each in times_ns if each is not None]
    return tuple(map(sum, zip(*known, strict=True)))


def _finding(finding: Finding) -> PageFinding:
    text = finding.text
    if finding.advice:
        # It stands by itself here. What follows it is said of other processes.
        text = text.replace(f" {finding.advice}", "", 1)
    return PageFinding(
        rule=printable(finding.rule).replace("_", " ").replace("cpu", "CPU"),
        who=finding.who.replace("-", " "),
        share=finding.share,
        remark=finding.remark,
        waits=is_wait(finding),
        text=printable(text),
        advice=None if finding.advice is None else printable(finding.advice),
        evidence=tuple((printable(name), value) for name, value in finding.evidence.items()),
    )


def about(header: RecordingHeader | None, first: Sample | None) -> Iterator[tuple[str, str]]:
    """What was measured where and by what: names and values, safe to print."""
    target = header.target if header else first.target if first else None
    if target is None:
        return
    said = [("Process", f"{target.comm} ({target.pid})"), ("Program", target.exe)]
    if header is not None and header.others:
        others = (f"{other.comm} ({other.pid})" for other in header.others)
        said.append(("With", ", ".join(others)))
    if header is not None:
        said += [
            ("Command line", shlex.join(header.target.command_line)),
            ("Node", header.node),
            ("Container", _container(header)),
            ("Cgroup", header.target.cgroup),
        ]
    kernel = header.kernel if header else first.kernel if first else ""
    host = header.host if header else first.host if first else ""
    said += [("Host", host), ("Kernel", f"Linux {kernel}")]
    if header is not None:
        said += [
            ("Machine", f"{header.machine}, {header.cpus} CPUs"),
            ("Boot", header.boot_id),
            ("Measured with", shlex.join(["kernel-delay", *header.arguments])),
            ("Version", f"kernel-delay {header.tool}"),
        ]
    yield from ((name, printable(value)) for name, value in said if value)


def _container(header: RecordingHeader) -> str | None:
    container = header.target.container
    if container is None:
        return None
    pod = f"pod {container.pod}" if container.pod else None
    if container.pod_name is not None:
        pod = f"pod {container.pod_namespace}/{container.pod_name}"
    return ", ".join(filter(None, (container.runtime, container.name, container.id, pod)))
