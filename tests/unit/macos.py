"""Python on Linux made as it is on macOS, as far as what reads recordings could tell.

What its library has on Linux alone is what typeshed, of mypy, says of it. Errors have other
numbers there.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import mypy

STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"

MODULES = (
    *("os", "posix", "signal", "select", "socket", "_socket", "fcntl", "resource"),
    *("time", "mmap", "errno", "termios", "shutil", "ssl", "threading", "asyncio"),
)

# Those that the manual says to install there, and what rich takes.
INSTALLED = ("msgspec", "rich", "zstandard", "markdown_it", "mdurl", "pygments")

OWN = ("kernel_delay", "sitecustomize")

SITECUSTOMIZE = """
import importlib, os, sys

for module, names in {lacking!r}.items():
    for name in names:
        vars(importlib.import_module(module)).pop(name, None)
sys.platform = "darwin"
importlib.import_module("errno").errorcode.clear()
os.strerror = str

def hide(event, arguments):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        if os.fsdecode(arguments[0]).startswith(("/proc", "/sys", "/dev/shm", "/run")):
            raise FileNotFoundError(2, "No such file or directory", arguments[0])

sys.addaudithook(hide)

class OnlyThose:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {known!r}:
            raise ModuleNotFoundError(f"there is no {{name}} on this Mac", name=name)

# Python's own finders are classes; an editable build adds one, which finds what was compiled.
sys.meta_path[:] = [OnlyThose(), *(each for each in sys.meta_path if isinstance(each, type))]
"""


def sitecustomize() -> str:
    """What makes it so, in a file of this name in a folder of PYTHONPATH."""
    known = {*sys.stdlib_module_names, *INSTALLED, *OWN}
    return SITECUSTOMIZE.format(lacking=lacking(), known=known)


def lacking() -> dict[str, list[str]]:
    """Of each module what there is on Linux alone."""
    return {module: sorted(names(module, "linux") - names(module, "darwin")) for module in MODULES}


def names(module: str, platform: str) -> set[str]:
    """What a module of the library has on a platform."""
    stub = STUBS / module / "__init__.pyi"
    path = stub if stub.exists() else STUBS / f"{module}.pyi"
    return set(_names(ast.parse(path.read_text()).body, platform))


def _names(body: list[ast.stmt], platform: str) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.If(test, then, otherwise):
                yield from _names(then if _is_so(test, platform) else otherwise, platform)
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.AnnAssign(ast.Name(name)):
                yield name
            case ast.ImportFrom(names=imported):
                yield from (each.asname or each.name for each in imported)


def _is_so(test: ast.expr, platform: str) -> bool:
    match test:
        case ast.BoolOp(ast.And(), values):
            return all(_is_so(value, platform) for value in values)
        case ast.BoolOp(ast.Or(), values):
            return any(_is_so(value, platform) for value in values)
        case ast.Compare(ast.Attribute(attr="platform"), [ast.Eq()], [ast.Constant(value)]):
            return value == platform
        case ast.Compare(ast.Attribute(attr="platform"), [ast.NotEq()], [ast.Constant(value)]):
            return value != platform
    # Of this version of Python.
    return bool(eval(ast.unparse(test), {"sys": sys, "TYPE_CHECKING": False}))
