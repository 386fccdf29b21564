"""Mutants of the BPF programs: one after the other, in a clone that compiles what was edited."""

import os
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct, convert

from tests.mutants.outcomes import BpfMutant, MutantsError

PROJECT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("bpf.toml")
PYTHON = Path(".venv", "bin", "python")

# What no test needs, on a busy machine, unless it waits for what the error keeps from happening.
LIMIT_S = 400

# pytest's exit status where tests ran, and failed.
FAILED = 1


class Listed(Struct, frozen=True, forbid_unknown_fields=True):
    """A mutant of bpf.toml.

    Attributes:
        file: Where, below src/kernel_delay.
        old: What is in that file once.
        new: What stands there instead.
        what: What is wrong then.
        tests: Which have to see it, as pytest names them.
        survives: Why they don't. Empty: they do, or it was not tried.
    """

    file: str
    old: str
    new: str
    what: str
    tests: tuple[str, ...]
    survives: str = ""

    @property
    def path(self) -> Path:
        """Where its file is, below the tree's folder."""
        return Path("src", "kernel_delay") / self.file

    def edit(self, text: str) -> str:
        """Put the error into its file's text.

        Raises:
            MutantsError: What it stands in place of is not there, or more than once.
        """
        if text.count(self.old) != 1:
            raise MutantsError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


def listed() -> tuple[Listed, ...]:
    """Those of bpf.toml."""
    return convert(tomllib.loads(LIST.read_text())["mutant"], tuple[Listed, ...])


def run(tree: Path, mutants: Sequence[Listed], when: str) -> Iterator[BpfMutant]:
    """Try each, and say what became of it as soon as it is known.

    Args:
        tree: A clone of what is committed, made or brought up to that.
        mutants: Those to try.
        when: The day and commit, for the results.

    Raises:
        MutantsError: The clone does not build, or a test fails without any error in the programs.
    """
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", PROJECT, tree], check=True)
    # One that was left has an older commit, and maybe an error in it.
    for step in (
        ("fetch", "--quiet", "origin", "HEAD"),
        ("reset", "--quiet", "--hard", "FETCH_HEAD"),
    ):
        subprocess.run(["git", *step], cwd=tree, check=True)
    # As in a shell of its own: not a part of the `make` that runs this.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    if subprocess.call(["make", "--silent", "dev"], cwd=tree, env=outside):
        raise MutantsError(f"make dev fails in {tree}")
    passed = set()
    for mutant in mutants:
        path = tree / mutant.path
        right = path.read_text()
        if mutant.tests not in passed and (status := _test(tree, mutant.tests)):
            raise MutantsError(f"without any error, pytest {' '.join(mutant.tests)} gives {status}")
        passed.add(mutant.tests)
        try:
            path.write_text(mutant.edit(right))
            outcome = _outcome(tree, mutant)
        finally:
            path.write_text(right)
        yield BpfMutant(mutant.file, mutant.what, outcome, when)


def _outcome(tree: Path, mutant: Listed) -> str:
    # The first start compiles what was edited.
    command = [str(tree / PYTHON), "-c", "import kernel_delay"]
    if subprocess.call(command, cwd=tree, stdout=subprocess.DEVNULL):
        raise MutantsError(f"does not compile: {mutant.file}: {mutant.what}")
    status = _test(tree, mutant.tests)
    if status not in (0, FAILED, None):
        raise MutantsError(f"pytest {' '.join(mutant.tests)} gives {status}: {mutant.what}")
    return "survived" if status == 0 else "killed"


def _test(tree: Path, tests: Sequence[str]) -> int | None:
    """Run the tests until one fails; None if they do not end."""
    command = [str(tree / PYTHON), "-m", "pytest", "-q", "-x", *tests]
    with open(tree / "build" / "mutant.log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=tree, stdout=log, stderr=log, start_new_session=True
        )
        try:
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
