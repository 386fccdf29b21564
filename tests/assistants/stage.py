"""python -m tests.assistants.stage FOLDER: record staged causes for a quiz, and write the truth.

The recordings are FOLDER/r01.kdr and so on. Their order says nothing, and neither do the names in
them. The truth is FOLDER/../truth.json. The machine may be busy: a stage whose cause is not the
tool's first finding is staged again, and the truth says how often.
"""

import argparse
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from kernel_delay.model import Sample
from tests import commands
from tests.assistants.answers import ITSELF, NOBODY, RecordingTruth
from tests.assistants.cases import CASES, Case
from tests.verdicts.cgroups import CGROUPS
from tests.verdicts.names import SALT, shown_name
from tests.verdicts.run import SETTLES_S, MeasuringError, stage_of
from tests.verdicts.truth import Staged

WINDOW_S, WINDOWS = 2.0, 2
ATTEMPTS = 5

# sched(7), autogroup: the nice value of a whole session.
OWN_SESSION = Path("/proc/self/autogroup")
NICE = -19


def order() -> list[Case]:
    """Return the cases in an order that has nothing to do with what they are."""
    return sorted(CASES, key=lambda case: hashlib.sha256(case.stage.encode()).digest())


def record(case: Case, path: Path, attempts: int = ATTEMPTS) -> RecordingTruth:
    """Stage a case until the recording shows it, or the attempts are used up."""
    attempt = 0
    while True:
        attempt += 1
        os.environ[SALT] = f"{path.stem} {attempt}"
        try:
            truth = _record_once(case, path, attempt)
        finally:
            del os.environ[SALT]
        if truth.is_shown or attempt >= attempts:
            return truth


def _record_once(case: Case, path: Path, attempt: int) -> RecordingTruth:
    path.unlink(missing_ok=True)
    with stage_of(case.stage)() as staged:
        _favour_cgroups()
        time.sleep(SETTLES_S)
        ids, partly = _culprits(case, staged), set(_blamed(case, staged)[1])
        for name in case.partly:
            partly.update(_tasks_named(shown_name(name)))
        plan = ("--sample-time", WINDOW_S, "--sample-count", WINDOWS)
        _run("capture", "--pid", staged.pid, *plan, *staged.options, "-o", path)
        comm = Path(f"/proc/{staged.pid}/comm").read_text().strip()
        words = tuple(
            word.format(cgroup=f"verdict-{os.getpid()}", disk=_disk()) for word in case.words
        )
        return RecordingTruth(
            recording=path.name,
            stage=case.stage,
            story=case.story,
            target=f"{comm} ({staged.pid})",
            causes=case.causes,
            ids=frozenset(ids),
            words=words,
            partly=frozenset(partly - ids),
            shown=_first_verdict(path),
            attempts=attempt,
            is_shown=_shows(path, case, staged),
        )


def _culprits(case: Case, staged: Staged) -> set[int]:
    """Return the IDs of the tasks that are to blame."""
    found: set[int] = set()
    for name in case.culprits:
        found.update(_tasks_named(shown_name(name)))
    if ITSELF in case.words:
        found.update(_threads(staged.pid))
    for pid in _blamed(case, staged)[0]:
        found.update(_threads(pid))
    if not found and not case.words:
        raise MeasuringError(f"{case.stage}: no culprit is found")
    return found


def _blamed(case: Case, staged: Staged) -> tuple[list[int], list[int]]:
    """Return whom the stage's own truth names, if the case leaves it to that, and who is between.

    A stage writes a process that the tool calls "123 of the same program" so, and others "(123)".
    """
    if case.culprits or case.words:
        return [], []
    text = " ".join(staged.truth.names)
    others = list(map(int, re.findall(r"\((\d+)\)", text)))
    same = list(map(int, re.findall(r"(\d+) of the same program", text)))
    return (same, others) if same else (others, [])


def _threads(pid: int) -> list[int]:
    return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]


def _tasks_named(name: str) -> Iterator[int]:
    for comm in Path("/proc").glob("[0-9]*/task/[0-9]*/comm"):
        try:
            if comm.read_bytes().strip() == name.encode():
                yield int(comm.parts[-2])
        except OSError:  # it has ended
            continue


def _disk() -> str:
    """Return the name of the device that the stages' files are on."""
    device = os.stat("/var/tmp").st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name


def _run(*arguments: object) -> str:
    done = commands.run(*arguments)
    if done.returncode:
        raise MeasuringError(done.stderr.strip())
    return done.stdout


def _first_verdict(path: Path) -> str:
    """Return the first line of the report that judges."""
    for line in _run("report", "--summary", path).splitlines():
        if line.startswith(("# VERDICT", "# REMARK")):
            return line.removeprefix("# ")
    return ""


def _shows(path: Path, case: Case, staged: Staged) -> bool:
    """Whether the tool's first finding in each window is of the cause."""
    samples = msgspec.json.Decoder(Sample)
    for line in _run("report", "--json", path).splitlines():
        verdict = samples.decode(line).verdict
        if NOBODY in case.words:
            if any(not finding.remark for finding in verdict):
                return False
        elif not verdict or verdict[0].rule not in staged.truth.right:
            return False
    return True


def table(truths: list[RecordingTruth]) -> str:
    """Return a table of what is true, and what the tool says first."""
    lines = ["| recording | truth | attempts | the tool's first line |", "|---|---|---|---|"]
    for truth in truths:
        ids = ", ".join(map(str, sorted(truth.ids)))
        culprit = "; ".join(filter(None, (ids, ", ".join(truth.words))))
        what = f"{truth.stage}: {truth.story} [{culprit}]"
        tried = f"{truth.attempts}{'' if truth.is_shown else ', NOT SHOWN'}"
        lines.append(f"| {truth.recording} | {what} | {tried} | {truth.shown} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Record the cases, or those named again; print the table. 1: one does not show its cause."""
    parser = argparse.ArgumentParser(prog="tests.assistants.stage", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", metavar="STAGE", help="record these anew")
    args = parser.parse_args()
    _be_first()
    folder: Path = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    book = folder.parent / "truth.json"
    known: dict[str, RecordingTruth] = {}
    if book.exists():
        read = msgspec.json.decode(book.read_bytes(), type=list[RecordingTruth])
        known = {truth.recording: truth for truth in read}
    for number, case in enumerate(order(), start=1):
        path = folder / f"r{number:02}.kdr"
        if args.only and case.stage not in args.only:
            continue
        known[path.name] = record(case, path)
        book.write_bytes(msgspec.json.format(msgspec.json.encode(sorted_truths(known)), indent=2))
        print(table([known[path.name]]).splitlines()[-1], flush=True)
    print(table(sorted_truths(known)))
    return int(not all(truth.is_shown for truth in known.values()))


def _be_first() -> None:
    """Have more of the CPUs than other work on the machine, which would be a second cause."""
    with suppress(OSError):
        os.setsid()  # not if it leads a group
    with suppress(OSError):
        OWN_SESSION.write_text(str(NICE))


def _favour_cgroups() -> None:
    """Give the cgroups of a stage the same, where they are not staged for their weight."""
    group = f"verdict-{os.getpid()}"
    for path, weight in (
        (CGROUPS / "cpu" / group / "cpu.shares", 262_144),
        (CGROUPS / group / "cpu.weight", 10_000),
    ):
        if path.exists():
            path.write_text(str(weight))


def sorted_truths(known: dict[str, RecordingTruth]) -> list[RecordingTruth]:
    """Return them by the names of their recordings."""
    return [known[name] for name in sorted(known)]


if __name__ == "__main__":
    sys.exit(main())
