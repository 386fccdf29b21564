"""The rooms of the package: as docs/architecture.md has them, and no import runs upward."""

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "kernel_delay"
EXTENSION = re.compile(r"^ *from kernel_delay[\w.]*\._\w+ import", re.MULTILINE)
PATH = re.compile(r"`([\w./*]+(?:/|\.(?:py|pyi|h|c|md|sql|toml)))`")
ROOM = re.compile(r"^\| `([\w.]+)` \|", re.MULTILINE)


class Import(NamedTuple):
    """A module imports another, both named without the package."""

    importer: str
    imported: str


@pytest.fixture(scope="module")
def page(project: Path) -> str:
    return (project / "docs" / "architecture.md").read_text()


@pytest.fixture(scope="module")
def order(page: str) -> list[str]:
    """The rooms, from the top to the bottom."""
    rooms = page.partition("## Rooms")[2].partition("\n## ")[0]
    return ROOM.findall(rooms)


@pytest.fixture(scope="module")
def modules(project: Path) -> dict[str, Path]:
    """Files by the names of their modules; a package's is its `__init__`."""
    source = project / "src" / PACKAGE
    return {
        ".".join(path.relative_to(source).with_suffix("").parts): path
        for path in source.rglob("*.py")
        if not path.name.endswith("_build.py")
    }


@pytest.fixture(scope="module")
def imports(modules: dict[str, Path]) -> list[Import]:
    # The package itself has the names of the public API, which it imports when one is called.
    within = {name: path for name, path in modules.items() if name != "__init__"}
    return [Import(name, to) for name, path in within.items() for to in imported(path, modules)]


def imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Which modules a file imports, also within functions and for the type checker."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == PACKAGE:
                yield module_of(name.removeprefix(f"{PACKAGE}."), modules)


def module_of(name: str, modules: dict[str, Path]) -> str:
    """The module that has the name, or is it; what was compiled counts to its package."""
    while name not in modules and f"{name}.__init__" not in modules:
        name, _, _ = name.rpartition(".")
        if not name:
            return "__init__"
    return name if name in modules else f"{name}.__init__"


def room_of(module: str, order: list[str]) -> str:
    """The room in the table, the most precise one, that the module belongs to."""
    rooms = [room for room in order if f"{module}.".startswith(f"{room}.")]
    return max(rooms, key=len, default="")


def test_each_module_is_in_a_room_of_the_table(modules: dict[str, Path], order: list[str]) -> None:
    homeless = [name for name in modules if name != "__init__" and not room_of(name, order)]
    assert homeless == []


def test_each_room_of_the_table_is_there(modules: dict[str, Path], order: list[str]) -> None:
    assert len(order) == len(set(order))
    assert [room for room in order if not {room, f"{room}.__init__"} & modules.keys()] == []


def test_no_import_runs_upward(imports: list[Import], order: list[str]) -> None:
    level = {room: number for number, room in enumerate(order)} | {"": len(order)}
    upward = [
        f"{importer} imports {imported}"
        for importer, imported in imports
        if level[room_of(importer, order)] > level[room_of(imported, order)]
    ]
    assert upward == []


def test_no_imports_go_in_a_circle(imports: list[Import]) -> None:
    """Not even within a room. That a package's `__init__` has its own modules' names is none."""
    graph = TopologicalSorter[str]()
    for importer, imported in imports:
        package = imported.removesuffix(".__init__")
        if package == imported or not importer.startswith(f"{package}."):
            graph.add(importer, imported)
    graph.prepare()  # raises CycleError, with the circle


def test_each_room_says_what_belongs_there(modules: dict[str, Path]) -> None:
    silent = [
        name for name, path in modules.items() if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_what_imports_an_extension_knows_no_any(project: Path, modules: dict[str, Path]) -> None:
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    typed = [name for each in settings if each.get("disallow_any_expr") for name in each["module"]]
    importing = [
        f"{PACKAGE}.{name}" for name, path in modules.items() if EXTENSION.search(path.read_text())
    ]
    assert len(importing) > 30
    assert [name for name in importing if not any(fnmatch(name, one) for one in typed)] == []


@pytest.mark.parametrize("folder", ["tests", "bench", "lab"])
def test_each_folder_beside_them_does_too(project: Path, folder: str) -> None:
    rooms = sorted((project / folder).rglob("__init__.py"))
    assert rooms
    assert [room for room in rooms if not ast.get_docstring(ast.parse(room.read_text()))] == []


def test_each_path_that_the_page_names_is_there(project: Path, page: str) -> None:
    paths = PATH.findall(page)
    assert len(paths) > 30
    package = project / "src" / PACKAGE
    places = {path: [project / path, package / path, *package.rglob(path)] for path in paths}
    assert [path for path, found in places.items() if not any(p.exists() for p in found)] == []


def test_each_link_of_the_page_leads_somewhere(project: Path, page: str) -> None:
    links = re.findall(r"\]\(([\w./]+)\)", page)
    assert links
    assert [link for link in links if not (project / "docs" / link).exists()] == []
