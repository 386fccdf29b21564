"""What became of the mutants, kept in results.json beside this file."""

from pathlib import Path

import msgspec
from msgspec import Struct, field

RESULTS = Path(__file__).with_name("results.json")


class Counted(Struct):
    """What became of a module's mutants.

    Attributes:
        when: The day and the commit of the run.
        mutants: How many there are.
        killed: How many of them a test saw.
        survivors: How many no test saw, by the function that they are in.
    """

    when: str
    mutants: int = 0
    killed: int = 0
    survivors: dict[str, int] = field(default_factory=dict)


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

    def take(self, tried: BpfMutant) -> None:
        """Have it in place of an earlier result of the same mutant."""
        others = [each for each in self.bpf if (each.file, each.what) != (tried.file, tried.what)]
        self.bpf = sorted([*others, tried], key=lambda each: (each.file, each.what))


def read() -> Outcomes:
    """Those that are kept."""
    return (
        msgspec.json.decode(RESULTS.read_bytes(), type=Outcomes) if RESULTS.exists() else Outcomes()
    )


def keep(outcomes: Outcomes) -> None:
    """Keep them in place of the former ones."""
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=1) + b"\n")
