"""Go's own table in stripped programs, against what the linker says of those that are not."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel_delay.symbols.bounds import TABLES_BYTES, Bounds
from kernel_delay.symbols.go_functions import GoFunctions
from tests.cache import cache_dir
from tests.workload import SOURCES

MODES = {"plain": ["-buildmode=exe"], "position-independent": ["-buildmode=pie"]}


@pytest.mark.parametrize("mode", MODES)
def test_each_function_has_its_name(tmp_path: Path, mode: str) -> None:
    whole, stripped = tmp_path / "whole", tmp_path / "stripped"
    environment = os.environ | {"GOCACHE": str(cache_dir() / "go"), "CGO_ENABLED": "0"}
    for program, flags in ((whole, ""), (stripped, "-s -w")):
        build = ["go", "build", *MODES[mode], f"-ldflags={flags}", "-o", str(program)]
        source = str(SOURCES / "go_sleeps.go")
        subprocess.run([*build, source], check=True, env=environment)
    sections = subprocess.run(
        ["readelf", "-SW", stripped], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert ".symtab" not in sections
    nm = subprocess.run(["nm", whole], check=True, stdout=subprocess.PIPE, text=True).stdout
    symbols = [line.split(" ", 2) for line in nm.splitlines()]
    with stripped.open("rb") as file:
        functions = GoFunctions.read(file.fileno(), str(stripped), Bounds())
        full = Bounds()
        full.table_bytes = TABLES_BYTES
        assert GoFunctions.read(file.fileno(), "/program", full) is None
    assert full.take_remarks() == ("/program has no function names: its .gopclntab is too large",)
    assert functions
    compared = 0
    for address, kind, name in symbols:
        # The linker has marks of its own between them, and more than one name for some.
        if kind.upper() == "T" and name.startswith(("main.", "sync.", "syscall.", "time.")):
            found = functions.find(int(address, 16))
            assert found == (name.removesuffix(".abi0"), 0)
            compared += 1
    assert {"main.main", "main.outer", "main.(*sleeper).sleep"} <= {name for *_, name in symbols}
    assert compared >= 10


def test_a_program_of_c_has_no_such_table(call_chain: Path) -> None:
    with call_chain.open("rb") as file:
        assert GoFunctions.read(file.fileno(), str(call_chain), Bounds()) is None
