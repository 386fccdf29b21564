"""What the BPF objects need of the kernel is in a table, and kernels have it."""

import subprocess
from collections.abc import Set
from pathlib import Path
from platform import machine

import pytest

from tests.needs import needed
from tests.requirements import facts, page, table
from tests.requirements.btf import BPFTOOL
from tests.requirements.objects import Requirement, Uses, installed_objects, read_all
from tests.requirements.table import Row

REWRITE = (
    "`python -m tests.requirements.page >docs/reference/kernel-requirements.md` writes it again"
)

Rows = dict[Requirement, Row]

# Of any kernel, even if a vmlinux.h is all that there is.
TYPES_SHOW = frozenset(
    ("attach type", "enumerator", "field", "helper", "iterator", "map type", "program type")
)


@pytest.fixture(scope="module", params=["x86_64", pytest.param("aarch64", marks=pytest.mark.long)])
def built_for(request: pytest.FixtureRequest) -> str:
    """The architecture of the objects."""
    if request.param != machine() and machine() != "x86_64":
        pytest.skip("objects of another architecture are compiled on x86-64 only")
    return str(request.param)


@pytest.fixture(scope="module")
def uses(built_for: str, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Uses:
    needed(BPFTOOL)
    if built_for == machine():
        return read_all(installed_objects())
    folder = tmp_path_factory.mktemp(built_for)
    return read_all(cross_compiled(project / "src" / "kernel_delay", folder))


def cross_compiled(sources: Path, folder: Path) -> list[Path]:
    """Compile the objects for arm64, as src/kernel_delay/bpf/meson.build does."""
    command = [needed("clang"), "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-D__TARGET_ARCH_arm64"]
    command += ["-Wno-everything", f"-I{sources / 'bpf'}"]
    command += [f"-I{sources / 'openvswitch'}"]
    command += ["-idirafter", "/usr/aarch64-linux-gnu/include"]
    for source in sources.rglob("*.bpf.c"):
        compiled = folder / source.with_suffix(".o").name
        subprocess.run([*command, "-c", str(source), "-o", str(compiled)], check=True)
    return list(folder.iterdir())


@pytest.fixture(scope="module")
def rows() -> Rows:
    return dict(table.read_rows())


def in_words(requirements: Set[Requirement]) -> list[str]:
    return sorted(map(str, requirements))


def test_each_requirement_is_in_the_table(uses: Uses, rows: Rows) -> None:
    missing = in_words(uses.keys() - rows.keys())
    assert not missing, "the objects need what tests/requirements/requirements.toml does not have"


def test_each_row_is_a_requirement(uses: Uses, rows: Rows, built_for: str) -> None:
    ours = {name for name, row in rows.items() if row.machine in ("", built_for)}
    needless = in_words(ours - uses.keys())
    assert not needless, "no object needs what tests/requirements/requirements.toml has"


def test_what_is_mandatory_is_in_the_oldest_kernel(rows: Rows) -> None:
    newer = {
        name
        for name, row in rows.items()
        if not row.without
        and (row.until or (row.since and table.is_newer(row.since, than=table.OLDEST)))
    }
    assert not in_words(newer), "what not all kernels have is optional: say what is missing without"


def test_what_an_object_asks_for_is_optional(uses: Uses, rows: Rows) -> None:
    asked = {name for name in uses.keys() & rows.keys() if is_asked_for(uses, name)}
    assert not in_words({name for name in asked if not rows[name].without})


def test_what_is_optional_is_asked_for(uses: Uses, rows: Rows) -> None:
    by_name = {str(name): name for name in uses}
    unasked = {
        name
        for name in uses.keys() & rows.keys()
        if rows[name].without and rows[name].asked != table.USER_SPACE
        # libbpf provides what is of this kind.
        if (by := by_name.get(rows[name].asked or str(name))) is None
        or (by.kind != "kconfig" and not is_asked_for(uses, by))
    }
    assert not in_words(unasked), "no object asks whether that is there"


def is_asked_for(uses: Uses, name: Requirement) -> bool:
    """Return whether an object asks if it is there, and a kfunc's weak everywhere."""
    checked = [use.checked for use in uses[name]]
    return all(checked) if name.kind in ("kfunc", "symbol") else any(checked)


def test_kernels_lack_nothing_mandatory(rows: Rows) -> None:
    lacking = {
        f"{kernel}: {name}"
        for kernel, found in facts.read_found().items()
        for name, known in found.items()
        if known is False and name in rows and not rows[name].without
    }
    assert not lacking


def test_each_row_has_a_version(rows: Rows) -> None:
    unversioned = {name for name, row in rows.items() if not row.since and name.kind != "kconfig"}
    assert not in_words(unversioned), "since which version has Linux that?"


@pytest.mark.parametrize(("kernel", "version"), [("5.14.2", "5.14"), ("5.15.85", "5.15")])
def test_a_release_has_nothing_newer(rows: Rows, kernel: str, version: str) -> None:
    newer = {name for name, row in rows.items() if row.since and table.is_newer(row.since, version)}
    found = facts.read_found()[kernel]
    assert not in_words({name for name in newer if found[name]})


def test_each_kernel_that_is_listed_was_looked_at(rows: Rows) -> None:
    found = facts.read_found()
    assert list(found) == [kernel.name for kernel in facts.read_kernels()]
    for column in found.values():
        missing = in_words(rows.keys() - column.keys())
        assert not missing, "found.csv has no row for it: `python -m tests.requirements.facts`"
        assert not in_words(column.keys() - rows.keys()), "a row of found.csv is of no requirement"


def test_each_kernel_shows_what_types_show(rows: Rows) -> None:
    found = facts.read_found()
    unknown = {
        f"{kernel.name}: {name}"
        for kernel in facts.read_kernels()
        for name, row in rows.items()
        if name.kind in TYPES_SHOW and not row.module and row.machine in ("", kernel.machine)
        if found[kernel.name].get(name) is None
    }
    assert not unknown, "`python -m tests.requirements.facts` looks for it"


def test_the_page_is_of_the_tables(project: Path) -> None:
    assert (project / "docs" / "reference" / "kernel-requirements.md").read_text() == page.page(), (
        REWRITE
    )
