"""The verdict as lines: whether the kernel is to blame, and the remarks."""

from collections.abc import Iterator

from kernel_delay.analysis.verdict import is_wait
from kernel_delay.analysis.verdict.asleep import slept_long
from kernel_delay.analysis.verdict.formatting import in_percent, share
from kernel_delay.model import Finding, Sample
from kernel_delay.printable import printable
from kernel_delay.reporters.layout import Layout, Role

_KINDS: dict[bool, tuple[str, Role]] = {False: ("VERDICT", "verdict"), True: ("REMARK", "remark")}


def verdict(sample: Sample, layout: Layout) -> Iterator[str]:
    """Whether the kernel is to blame, with the evidence; nothing without accounting."""
    if not any(thread.time for thread in sample.threads):
        return
    acquitted = all(finding.remark for finding in sample.verdict)
    waited = any(map(is_wait, sample.verdict))
    # In a round there was time lost, whoever is to blame.
    if sample.round is None and acquitted and not waited:
        yield from _acquittal(sample, layout)
    for position, finding in enumerate(sample.verdict):
        kind, role = _KINDS[finding.remark]
        if position == 0 and acquitted and waited:
            # Of who waited nobody knows whether it was kept from work: no other line comes first.
            kind = "VERDICT"
        yield from _finding(kind, finding, role, layout)


def _acquittal(sample: Sample, layout: Layout) -> Iterator[str]:
    """That nothing was found; a thread that slept for long may not be called fine."""
    slept = slept_long(sample)
    if not slept:
        text = "VERDICT: nothing kept a thread from its work for long."
        yield from layout.comment(text, "acquittal")
        return
    (thread, ns), *others = slept
    part = share(ns, sample.window.duration_ns)
    also = f" ({len(others):,} other thread{'s' if len(others) > 1 else ''} too)" if others else ""
    text = (
        "VERDICT: no cause of a delay was found."
        f" {printable(thread.name)} ({thread.tid}) slept for {part} of the window{also}."
    )
    yield from layout.comment(text, "remark")


def _finding(kind: str, finding: Finding, role: Role, layout: Layout) -> Iterator[str]:
    """A finding: on a terminal its share first, and each sentence in lines of its own."""
    if layout.width is None or not finding.sentence:
        yield from layout.comment(f"{kind}: {printable(finding.text)}", role)
        return
    advice = (finding.advice,) if finding.advice else ()
    first, *others = map(printable, (finding.sentence, *finding.details, *advice))
    yield from layout.item(f"{kind} {in_percent(finding.share)}: {first}", others, role)
