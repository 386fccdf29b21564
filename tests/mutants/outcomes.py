"""What became of the mutants, kept in results.json beside this file."""

from pathlib import Path

import msgspec
from msgspec import Struct, field

RESULTS = Path(__file__).with_name("results.json")


class Counted(Struct):
    """What became of a module's mutants.

    Attributes:
        when: The day and the commit of the run.
        mutants: How many were tried: not all that there are, if the run was ended early.
        killed: How many of them a test saw.
        survivors: How many no test saw, by the function that they are in.
    """

    when: str
    mutants: int = 0
    killed: int = 0
    survivors: dict[str, int] = field(default_factory=dict)


class MutantsError(Exception):
    """The mutants cannot be tried; the message says why."""


Mutated = dict[str, Counted]
"""By the module's name, without the package's."""


class BpfMutant(Struct, frozen=True):
    """A mutant of a BPF program.

    Attributes:
        file: Where it is, as in bpf.toml.
        what: What is wrong then.
        outcome: `killed` or `survived`.
        when: The day and the commit of the run.
    """

    file: str
    what: str
    outcome: str
    when: str


class Outcomes(Struct):
    """The last result of each, of both kinds."""

    python: Mutated = field(default_factory=dict)
    bpf: list[BpfMutant] = field(default_factory=list)


def count_seen(mutated: Mutated) -> tuple[int, int]:
    """How many of these modules' mutants were seen, and how many tried."""
    modules = mutated.values()
    return sum(each.killed for each in modules), sum(each.mutants for each in modules)


def read() -> Outcomes:
    """Those that are kept."""
    return (
        msgspec.json.decode(RESULTS.read_bytes(), type=Outcomes) if RESULTS.exists() else Outcomes()
    )


def keep_python(mutated: Mutated) -> None:
    """Keep these modules' results in place of their former ones."""
    kept = read()
    kept.python |= mutated
    _write(kept)


def keep_bpf(tried: BpfMutant) -> None:
    """Keep this in place of an earlier result of the same mutant."""
    kept = read()
    others = [each for each in kept.bpf if (each.file, each.what) != (tried.file, tried.what)]
    kept.bpf = sorted([*others, tried], key=lambda each: (each.file, each.what))
    _write(kept)


def _write(kept: Outcomes) -> None:
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
