"""What the fuzzers begin with, and what they found, each once; `make fuzz` goes on from it."""

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.cache import built
from tests.fuzz import c_targets
from tests.fuzz.parsers import PARSERS

SEEDS = Path(c_targets.__file__).with_name("seeds")


def test_each_target_has_seeds() -> None:
    assert {folder.name for folder in SEEDS.iterdir()} == {*PARSERS, *c_targets.TARGETS}


# With the sanitizers it takes seconds, and a busy machine ten times as long.
HANGS_S = 1_000


@pytest.mark.parametrize(
    "seed", sorted(SEEDS.glob("*/*")), ids=lambda seed: "/".join(seed.parts[-2:])
)
def test_a_parser(seed: Path) -> None:
    if parser := PARSERS.get(seed.parent.name):
        content = seed.read_bytes()
        for length in {len(content), len(content) // 2, max(0, len(content) - 1), 0}:
            parser(content[:length])


# What a target may be made of, and how: compiled with the sanitizers it takes seconds.
C_SOURCES = (
    Path(c_targets.__file__),
    *sorted(c_targets.HERE.rglob("*.[ch]")),
    *sorted(c_targets.SOURCES.rglob("*.[ch]")),
)


@pytest.mark.parametrize("name", c_targets.TARGETS)
def test_a_c_target(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZ_CC", "gcc")
    replay = str(c_targets.HERE / "replay.c")
    folder = built(f"fuzz-{name}", partial(c_targets.build, name, driver=replay), *C_SOURCES)
    program = folder / name
    inputs = sorted((SEEDS / name).iterdir())
    done = subprocess.run([program, *inputs], capture_output=True, text=True, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
