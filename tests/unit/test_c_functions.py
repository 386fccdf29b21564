"""The functions of our C headers: each is used, and no two files need each other."""

import re
from itertools import combinations
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "kernel_delay"
DECLARED = re.compile(r"^[a-z][\w ]*[ *]+(\w+)\([^;{]*\);", re.MULTILINE)

# The programs of bpf/ have headers of other kinds: all in them is inlined.
TEXTS = {
    path: path.read_text()
    for path in SOURCES.rglob("*")
    if path.suffix in (".c", ".h", ".py") and SOURCES / "bpf" not in path.parents
}
WORDS = {path: set(re.findall(r"\w+", text)) for path, text in TEXTS.items()}
DECLARES = {
    path.with_suffix(""): set(DECLARED.findall(text))
    for path, text in TEXTS.items()
    if path.suffix == ".h"
}


def uses(file: Path, functions: set[str]) -> set[str]:
    return functions & WORDS.get(file, set())


def own(stem: Path) -> tuple[Path, Path]:
    return stem.with_suffix(".c"), stem.with_suffix(".h")


def test_each_function_of_a_header_is_used_elsewhere() -> None:
    unused = [
        name
        for stem, functions in DECLARES.items()
        for name in functions
        if not any(uses(path, {name}) for path in TEXTS if path not in own(stem))
    ]
    assert DECLARES
    assert not unused


def test_no_two_c_files_need_each_other() -> None:
    def needs(one: Path, other: Path) -> set[str]:
        return uses(one.with_suffix(".c"), DECLARES[other])

    circles = [
        (one.name, other.name)
        for one, other in combinations(DECLARES, 2)
        if needs(one, other) and needs(other, one)
    ]
    assert not circles
