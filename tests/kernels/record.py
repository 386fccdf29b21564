"""What is known of each test on each kernel, from runs of any day: results.json."""

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tests.kernels.images import host_only_tests
from tests.kernels.results import Outcome, Result

REPOSITORY = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("results.json")
# Of a path all but the last part.
FOLDERS = re.compile(r"(?:/[\w.+@~-]+)+/")
LONGEST_REASON = 160
PAGE = REPOSITORY / "docs" / "reference" / "compatibility.md"


@dataclass(frozen=True, order=True)
class Circumstances:
    """Where and when tests ran.

    Attributes:
        kernel: Its name in kernels.toml.
        release: What `uname -r` said in the guest.
        commit: The version of the sources; `-dirty` if they were changed.
        date: The day, in UTC, as 2026-11-23.
        accelerator: What QEMU ran the guest with.
    """

    kernel: str
    release: str
    commit: str
    date: str
    accelerator: str


@dataclass(frozen=True)
class Outcomes:
    """The results of one guest, and its circumstances."""

    circumstances: Circumstances
    results: dict[str, Result]

    def write(self, path: Path) -> None:
        """Keep them in a file."""
        tests = {test: _listed(result) for test, result in self.results.items()}
        text = json.dumps({"circumstances": asdict(self.circumstances), "tests": tests}, indent=1)
        path.write_text(text + "\n")

    @classmethod
    def read(cls, path: Path) -> "Outcomes":
        """Read what write() wrote."""
        stored = json.loads(path.read_text())
        results = {test: _result(listed) for test, listed in stored["tests"].items()}
        return cls(Circumstances(**stored["circumstances"]), results)


@dataclass(frozen=True)
class Record:
    """The last result of each test on each kernel: by the test, then by the kernel's name."""

    tests: dict[str, dict[str, tuple[Circumstances, Result]]] = field(default_factory=dict)

    def merged(self, outcomes: Outcomes) -> "Record":
        """This record with a guest's results in place of the older ones of the same tests."""
        now, tests = outcomes.circumstances, {test: {**of} for test, of in self.tests.items()}
        for test, result in outcomes.results.items():
            of = tests.setdefault(test, {})
            if now.kernel not in of or of[now.kernel][0].date <= now.date:
                of[now.kernel] = (now, result)
        return replace(self, tests=tests)

    def current(self) -> "Record":
        """This record without tests that the sources have no more, or that are the host's alone."""
        hosts = host_only_tests().keys()
        kept = {
            test: of
            for test, of in self.tests.items()
            if _is_there(test) and hosts.isdisjoint(test.partition(at)[0] for at in ("::", "["))
        }
        return replace(self, tests=kept)

    def of(self, kernel: str) -> Iterator[tuple[str, Circumstances, Result]]:
        """Each test's result on a kernel, and when and where it was had."""
        for test, results in sorted(self.tests.items()):
            if kernel in results:
                yield (test, *results[kernel])

    def write(self, path: Path = RECORD) -> None:
        """Write it with a line for each test, so that a change can be read."""
        known = sorted({one for of in self.tests.values() for one, _ in of.values()})
        lines = []
        for test, of in sorted(self.tests.items()):
            listed = {
                kernel: [known.index(circumstances), *_listed(result)]
                for kernel, (circumstances, result) in sorted(of.items())
            }
            lines.append(f"  {json.dumps(test)}: {json.dumps(listed)}")
        runs = [f"  {json.dumps(asdict(one))}" for one in known]
        path.write_text(
            '{\n "runs": [\n'
            + ",\n".join(runs)
            + '\n ],\n "tests": {\n'
            + ",\n".join(lines)
            + "\n }\n}\n"
        )

    @classmethod
    def read(cls, path: Path = RECORD) -> "Record":
        """Read what write() wrote."""
        stored = json.loads(path.read_text())
        runs = [Circumstances(**run) for run in stored["runs"]]
        return cls(
            {
                test: {
                    kernel: (runs[run], _result(listed)) for kernel, (run, *listed) in of.items()
                }
                for test, of in stored["tests"].items()
            }
        )


def commit() -> str:
    """The sources' commit; what a run itself writes does not count as a change."""
    git = ["git", "-C", str(REPOSITORY), "-c", f"safe.directory={REPOSITORY}"]
    head = [*git, "rev-parse", "--short", "HEAD"]
    name = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
    written = [f":!{path.relative_to(REPOSITORY)}" for path in (RECORD, PAGE)]
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", ".", *written], check=False)
    return f"{name}-dirty" if changed.returncode else name


def _listed(result: Result) -> list[str]:
    return [result.outcome.value, *filter(None, [_brief(result.reason)])]


def _brief(reason: str) -> str:
    """A reason without the folders of the machine that it is of, and as long as a line."""
    return FOLDERS.sub("…/", reason)[:LONGEST_REASON]


def _result(listed: list[str]) -> Result:
    return Result(Outcome(listed[0]), *listed[1:])


def _is_there(test: str) -> bool:
    """Whether the file that pytest's name of a test begins with has its function."""
    file, _, function = test.partition("[")[0].rpartition("::")
    path = REPOSITORY / file.partition("::")[0]
    return path.is_file() and f"def {function}(" in path.read_text()
