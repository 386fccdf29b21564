"""Go's own table in stripped programs, against what the linker says of those that are not."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel_delay.symbols.bounds import TABLES_BYTES, Bounds
from kernel_delay.symbols.go_functions import GoFunctions
from tests.cache import cache_dir
from tests.event_captures import capture, event_plan, events_of, user_stack
from tests.workload import SOURCES, wait_until

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


X86_64 = os.uname().machine == "x86_64"


@pytest.mark.skipif(not X86_64, reason="libdwfl guesses along x86-64's frame pointers")
def test_stacks_of_a_stripped_program_are_whole_at_goexit(tmp_path: Path) -> None:
    program = tmp_path / "stripped"
    environment = os.environ | {"GOCACHE": str(cache_dir() / "go"), "CGO_ENABLED": "0"}
    build = ["go", "build", "-ldflags=-s -w", "-o", program, SOURCES / "go_sleeps.go"]
    subprocess.run([*map(str, build)], check=True, env=environment)
    with subprocess.Popen([program]) as process:

        def switches() -> int:
            texts = [
                path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/status")
            ]
            return sum(int(text.rpartition("nonvoluntary")[0].split()[-1]) for text in texts)

        def until_it_called() -> None:
            until = switches() + 100
            wait_until(lambda: switches() >= until)
            process.kill()

        try:
            sample = capture(process.pid, event_plan("getppid"), until_it_called)
        finally:
            process.kill()
    stacks = [user_stack(sample, event) for event in events_of(sample)]
    assert stacks
    assert {stack[-1].name for stack in stacks} == {"runtime.goexit"}
    assert all("main.outer" in [frame.name for frame in stack] for stack in stacks)
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 0)


def test_a_program_of_c_has_no_such_table(call_chain: Path) -> None:
    with call_chain.open("rb") as file:
        assert GoFunctions.read(file.fileno(), str(call_chain), Bounds()) is None
