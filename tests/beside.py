"""Which tests run beside each other, where pytest has several processes (pytest-xdist)."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

# How tests come by a CPU of their choice, of which a real-time workload leaves nothing to that of
# another test: by name, or in the stages of verdicts and in the demo.
NAMES_A_CPU = (
    "os.sched_getaffinity(",
    "os.sched_setscheduler(",
    '"taskset"',
    "undisturbed(",
    "run_case(",
    '"lab.demo"',
)
LONGEST = (
    "tests/cost/test_committed_figures.py",
    "tests/integration/where/test_gil.py",
    "tests/integration/where/test_python_frames.py",
    "tests/integration/triggers/test_openvswitch.py",
    "tests/integration/test_signals.py",
    "tests/integration/where/test_where_command.py",
    "tests/integration/triggers/test_concurrent_hits.py",
    "tests/integration/test_watch_programs.py",
    "tests/integration/triggers/test_consecutive_windows.py",
    "tests/integration/triggers/test_ground_truth.py",
    "tests/unit/test_page_accessible.py",
    "tests/unit/test_page_in_browser.py",
    "tests/unit/test_fleet.py",
    "tests/unit/test_recording.py",
    "tests/unit/test_without_extensions.py",
    "tests/unit/test_kernel_requirements.py",
    "tests/unit/test_mcp.py",
    "tests/unit/test_assistants_client.py",
    "tests/unit/test_page_layout.py",
    "tests/unit/test_error_sentences.py",
    "tests/unit/test_ansible_role.py",
)
"""Files that take long for their number of tests: begun late, they would run on alone."""

ONE_BY_ONE = "those that name a CPU"


class OneForEachCpu(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests one after the other, and so all those that name a CPU."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        """Schedule those of `config`; pytest-xdist says to `log` what it does."""
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        """Return what the test is not to run beside others of."""
        file, _, name = nodeid.partition("::")
        function = re.split(r"\[|::", name)[0]
        return ONE_BY_ONE if function in names_a_cpu(self._root / file) else file

    def _assign_work_unit(self, node: object) -> None:
        """Have a process of pytest begin with what takes longest."""
        first = next((each for each in (ONE_BY_ONE, *LONGEST) if each in self.workqueue), None)
        if first is not None:
            self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


@cache
def names_a_cpu(file: Path, above: frozenset[Path] = frozenset()) -> frozenset[str]:
    """Return which functions of a file have workloads on a CPU of their choice.

    So has one that refers to what has them: to a function, a fixture or a constant of the file, or
    what it imports from another one of the tests. `above` are files that import this one.
    """
    lines = file.read_text().splitlines()
    uses: dict[str, set[str]] = {}
    found: set[str] = set()
    every = False
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ImportFrom):
            found |= _imported(node, file, above)
            continue
        begin = min(each.lineno for each in ast.walk(node) if isinstance(each, ast.expr | ast.stmt))
        source = "\n".join(lines[begin - 1 : node.end_lineno])
        for name in _defined(node):
            uses[name] = _used(node)
            if any(word in source for word in NAMES_A_CPU):
                found.add(name)
                every |= "autouse=True" in source
    while more := {name for name in uses.keys() - found if not uses[name].isdisjoint(found)}:
        found |= more
    return frozenset(uses if every else found)


def _imported(node: ast.ImportFrom, file: Path, above: frozenset[Path]) -> set[str]:
    """The names of another file of the tests that have such workloads there."""
    parts = (node.module or "").split(".")
    if parts[0] != "tests" or "tests" not in file.parts:
        return set()
    root = Path(*file.parts[: file.parts.index("tests")])
    other = root.joinpath(*parts).with_suffix(".py")
    if other in above or not other.is_file():
        return set()
    there = names_a_cpu(other, above | {file})
    return {alias.asname or alias.name for alias in node.names if alias.name in there}


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node]
    return [
        each.id
        for target in targets
        for each in ast.walk(target)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    ]


def _used(node: ast.stmt) -> set[str]:
    """What a definition refers to: names, and fixtures by its arguments or by usefixtures."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            found.add(each.id)
        elif isinstance(each, ast.arg):
            found.add(each.arg)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            found.add(each.value)
    return found
