"""The same stack unwound by gdb and by us."""

import subprocess
from pathlib import Path

import pytest

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.call_chains import running, stopped_in_read
from tests.needs import needed


@pytest.mark.parametrize("chain", ["recursion", "alloca", "library", "signal", "fault", "thread"])
def test_gdb_sees_the_same_frames(call_chain: Path, chain: str, tmp_path: Path) -> None:
    needed("gdb")
    with running([call_chain, chain]) as run:
        with stopped_in_read(run) as thread:
            registers = thread.registers()
            sp, copy = thread.stack()
        with ProcessImage(run.process.pid) as image:
            space = AddressSpace(image)
            ours = space.unwind(registers, copy, sp)
            frames = space.frames(ours)
            space.close()
        theirs = frames_by_gdb(run.process.pid, run.tid, tmp_path)
    assert [pc for pc, _ in theirs] == list(ours.pcs)
    # Of several names for one address in libc gdb may show another.
    own = [i for i, frame in enumerate(frames) if "call_chain" in (frame.object or "")]
    assert len(own) > 3
    assert [theirs[i][1] for i in own] == [frames[i].name for i in own]


def frames_by_gdb(pid: int, tid: int, directory: Path) -> list[tuple[int, str]]:
    """Let gdb print a thread's frames: pc and name, innermost first."""
    script = directory / "print_frames.py"
    script.write_text(f"tid = {tid}{PRINT_FRAMES}")
    command: list[str | Path] = ["gdb", "-nx", "-batch", "-p", str(pid), "-x", script]
    gdb = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line.split() for line in gdb.stdout.split("\n") if line.startswith("FRAME ")]
    return [(int(pc, 16), name) for _, pc, name in lines]


PRINT_FRAMES = """
gdb.execute("set backtrace past-main on")
for thread in gdb.selected_inferior().threads():
    if thread.ptid[1] == tid:
        thread.switch()
frame = gdb.newest_frame()
while frame:
    print("FRAME", hex(frame.pc()), frame.name())
    frame = frame.older()
"""
