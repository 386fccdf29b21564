"""python -m tests.assistants.score TRUTH ANSWERS [TRANSCRIPT …]: are the answers right?

ANSWERS is a JSON list, or a line of JSON for each answer. A figure that an answer quotes must be in
what the tool printed of that recording: its transcripts, and with --recordings FOLDER its reports.
Exits with 1 if an innocent one is named or a figure is invented.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from kernel_delay.formatting import NS_PER_MS, NS_PER_S, NS_PER_US, brief
from tests import commands
from tests.assistants.answers import CAUSES, NOBODY, NOT_KNOWN, Answer, Exchange, RecordingTruth

Outcome = Literal["right", "partly", "not known", "missed", "FALSE", "no answer"]
"""What an answer's culprit is worth.

right: it is one. partly: it is on the way to one. not known: the answer says so. missed: nobody is
named, and somebody is to blame. FALSE: an innocent one is named.
"""

OUTCOMES: tuple[Outcome, ...] = ("right", "partly", "not known", "missed", "FALSE", "no answer")

# A number with a unit behind it; not one that is part of a name, as in r01.kdr or task-3f2.
_FIGURE = re.compile(
    r"(?<![\w.-])(\d+(?:,\d{3})+|\d+)(\.\d+)?\s*(ns|us|µs|\u03bcs|ms|s|%|k|x|\u00d7)?(?![\w-])",
    re.IGNORECASE,
)
_SEPARATED = re.compile(r"(?<=\d)[\u2009\u202f\u00a0'_](?=\d{3})")
_SIZES = {"ns": 1, "us": NS_PER_US, "µs": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}


class Figure(Struct, frozen=True):
    """A number, and its unit if it is one of time, a percentage or a factor."""

    value: Decimal
    unit: str = ""

    @property
    def ns(self) -> Decimal | None:
        """As nanoseconds. None: it is no time."""
        return self.value * _SIZES[self.unit] if self.unit in _SIZES else None

    def __str__(self) -> str:
        return f"{self.value:,} {self.unit}".strip()


class Score(Struct, frozen=True):
    """What an answer is worth.

    Attributes:
        recording: The name of its file.
        culprit: What the culprit is worth.
        is_cause_right: Whether the cause is right.
        figures: How many figures it quotes.
        rounded: Those that the tool's own rounding makes of what it printed.
        invented: Those that the tool did not print.
    """

    recording: str
    culprit: Outcome
    is_cause_right: bool
    figures: int = 0
    rounded: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


def figures(text: str) -> Iterator[Figure]:
    """Yield the numbers of a text, without separators of thousands."""
    for whole, fraction, unit in _FIGURE.findall(_SEPARATED.sub("", text)):
        yield Figure(
            Decimal(whole.replace(",", "") + fraction), unit.lower().replace("\u03bc", "\u00b5")
        )


def culprit_of(answer: Answer, truth: RecordingTruth) -> Outcome:
    """Judge the culprit of an answer."""
    named = answer.culprit.strip(" .\"'`").casefold()
    if any(named.endswith(word.casefold()) for word in truth.words):
        return "right"
    if named in ("", NOT_KNOWN):
        return "not known"
    if named == NOBODY:
        return "missed"
    ids = {int(each) for each in re.findall(r"\((?:[a-z]+ )?(\d+)\)", named)}
    if not ids <= truth.ids | truth.partly or not ids:
        return "FALSE"
    return "right" if ids & truth.ids else "partly"


def is_printed(figure: Figure, printed: Iterable[Figure]) -> bool:
    """Whether a figure was printed; a unit may be the heading of its column."""
    return any(
        figure.value == other.value
        and (not other.unit or other.unit == figure.unit or not figure.unit)
        for other in printed
    )


def is_rounded(figure: Figure, printed: Iterable[Figure]) -> bool:
    """Whether the tool would write so what it printed in ns, or a percentage with more digits."""
    for other in printed:
        if figure.unit == "%" and other.unit in ("%", ""):
            digits = -int(figure.value.as_tuple().exponent)
            is_longer = int(other.value.as_tuple().exponent) < -digits
            if is_longer and round(other.value, digits) == figure.value:
                return True
        # Tables are in ns, and say so in their headings.
        ns = Decimal(other.value) if not other.unit else other.ns
        if figure.ns is None or ns is None or ns != int(ns) or ns < NS_PER_US:
            continue
        if any(rounded.ns == figure.ns for rounded in figures(brief(int(ns)))):
            return True
    return False


def score(answer: Answer, truth: RecordingTruth, printed: str) -> Score:
    """Judge an answer by the truth, and by what the tool printed of that recording."""
    quoted = dict.fromkeys(figures(" ; ".join((*answer.numbers, answer.sentence))))
    there = list(figures(printed))
    missing = [figure for figure in quoted if not is_printed(figure, there)]
    invented = [figure for figure in missing if not is_rounded(figure, there)]
    return Score(
        recording=answer.recording,
        culprit=culprit_of(answer, truth),
        is_cause_right=answer.cause.strip().casefold() in map(str.casefold, truth.causes),
        figures=len(quoted),
        rounded=tuple(str(figure) for figure in missing if figure not in invented),
        invented=tuple(map(str, invented)),
    )


def printed_of(recording: str, exchanges: Iterable[Exchange]) -> str:
    """Return what the tool printed of a recording, and of none in particular."""
    return "\n".join(
        each.answer for each in exchanges if not each.recordings or recording in each.recordings
    )


def read_answers(text: str) -> list[Answer]:
    """Read a JSON list or JSON lines. Raises msgspec.ValidationError for what is no answer."""
    if text.lstrip().startswith("["):
        return msgspec.json.decode(text, type=list[Answer])
    return msgspec.json.Decoder(Answer).decode_lines(text)


def reports(path: Path) -> str:
    """Return the tool's reports on a recording."""
    ways: tuple[tuple[str, ...], ...] = (
        (),
        ("--summary",),
        ("--header",),
        ("--percentiles", "--all-threads"),
        ("--units", "ms"),
    )
    return "\n".join(commands.run("report", *way, path).stdout for way in ways)


def table(scores: list[Score]) -> str:
    """Return a line for each recording, and the sums."""
    lines = [f"{'recording':10} {'culprit':10} {'cause':6} figures  rounded, INVENTED"]
    for each in scores:
        cause = "right" if each.is_cause_right else "wrong"
        others = [*each.rounded, *(f"INVENTED {figure}" for figure in each.invented)]
        words = (f"{each.recording:10} {each.culprit:10} {cause:6} {each.figures:7}", *others)
        lines.append("  ".join(words))
    counts = Counter(each.culprit for each in scores)
    shown = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    causes = sum(each.is_cause_right for each in scores)
    quoted = sum(each.figures for each in scores)
    rounded = sum(len(each.rounded) for each in scores)
    invented = sum(len(each.invented) for each in scores)
    lines += [
        f"{len(scores)} recordings: culprit {shown}; cause {causes} right",
        f"{quoted} figures: {rounded} rounded, {invented} INVENTED",
    ]
    return "\n".join(lines)


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(prog="tests.assistants.score", description=__doc__)
    parser.add_argument("truth", type=Path, metavar="TRUTH")
    parser.add_argument("answers", type=Path, metavar="ANSWERS")
    parser.add_argument("transcripts", type=Path, nargs="*", metavar="TRANSCRIPT")
    parser.add_argument("--recordings", type=Path, metavar="FOLDER", help="report from these too")
    args = parser.parse_args()
    truths = msgspec.json.decode(args.truth.read_bytes(), type=list[RecordingTruth])
    answers = {each.recording: each for each in read_answers(args.answers.read_text())}
    for stranger in answers.keys() - {truth.recording for truth in truths}:
        parser.error(f"{stranger} is no recording")
    for answer in answers.values():
        if answer.cause.strip().casefold() not in map(str.casefold, CAUSES):
            print(f"{answer.recording}: no such cause: {answer.cause}", file=sys.stderr)
    decoder = msgspec.json.Decoder(Exchange)
    exchanges = [
        each for path in args.transcripts for each in decoder.decode_lines(path.read_bytes())
    ]
    scores = []
    for truth in truths:
        if truth.recording not in answers:
            scores.append(Score(truth.recording, "no answer", False))
            continue
        printed = printed_of(truth.recording, exchanges)
        if args.recordings:
            printed += reports(args.recordings / truth.recording)
        scores.append(score(answers[truth.recording], truth, printed))
    print(table(scores))
    return int(any(each.culprit == "FALSE" or each.invented for each in scores))


if __name__ == "__main__":
    sys.exit(main())
