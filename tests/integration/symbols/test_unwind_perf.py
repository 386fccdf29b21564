"""The very registers and stacks that perf recorded, unwound by perf and by us."""

import os
import re
import select
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.call_chains import running
from tests.workload import HANGS_S

# perf's names for x86-64's registers, in DWARF's order.
REGISTERS = ["AX", "DX", "CX", "BX", "SI", "DI", "BP", "SP", *[f"R{i}" for i in range(8, 16)], "IP"]
MASK = ",".join(REGISTERS).lower()
STACK_SIZE = 8192


def test_perf_unwinds_its_samples_to_the_same_frames(
    call_chain: Path, perf_works: None, tmp_path: Path
) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("perf's register names are those of x86-64 here")
    data = tmp_path / "perf.data"
    with running([call_chain, "busy"]) as run:
        run.wait_for_read()
        with ProcessImage(run.process.pid) as image:
            record(run.process.pid, data, run.go_on)
            space = AddressSpace(image)
            samples = 0
            for event in events(data):
                registers, stack, theirs = event
                ours = space.unwind(registers, stack, registers[REGISTERS.index("SP")])
                frames = space.frames(ours)
                assert ours.end == "whole"
                # perf's address of a return is that of the call's last byte.
                offsets = [
                    frame.offset - (not exact)
                    for frame, exact in zip(frames, ours.exact, strict=True)
                ]
                assert offsets == [offset for _, offset in theirs]
                own = [i for i, frame in enumerate(frames) if frame.object == str(call_chain)]
                assert [frames[i].name for i in own] == [theirs[i][0] for i in own]
                samples += 1
            space.close()
    assert samples >= 10


def record(pid: int, data: Path, go_on: Callable[[], None]) -> None:
    """Record the process till it exits, from before it goes on."""
    control, answer = fifo(data.with_name("control")), fifo(data.with_name("answer"))
    command = ["perf", "record", "-q", "-o", str(data), "-p", str(pid), "-D", "-1"]
    command += ["--control", f"fd:{control},{answer}"]
    command += ["-e", "cpu-clock:u", "-F", "499", f"--user-regs={MASK}"]
    command += ["--call-graph", f"dwarf,{STACK_SIZE}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, pass_fds=(control, answer)) as perf:
        try:
            os.write(control, b"enable\n")
            while not select.select([answer], [], [], 0.1)[0]:
                if perf.poll() is not None:
                    pytest.fail(f"perf ended: {perf.communicate()[1].decode()}")
            go_on()
            perf.wait(HANGS_S)
        finally:
            perf.kill()
            os.close(control)
            os.close(answer)


def fifo(path: Path) -> int:
    """Make a FIFO that does not wait for its other end."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


def events(data: Path) -> list[tuple[tuple[int, ...], bytes, list[tuple[str, int]]]]:
    """Each sample's registers, stack, and perf's own frames: name and offset."""
    command = ["perf", "script", "-i", str(data), "-D", "--no-inline", "-F", "ip,sym,symoff"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = []
    for event in out.stdout.decode(errors="replace").split("... raw event: size ")[1:]:
        if "PERF_RECORD_SAMPLE" not in event:
            continue
        raw = bytearray()
        for line in re.findall(r"^\.  [0-9a-f]+:  ((?:[0-9a-f]{2} )+)", event, re.MULTILINE):
            raw += bytes.fromhex(line)
        named = dict(re.findall(r"^\.\.\.\. (\w+) +0x([0-9a-f]+)$", event, re.MULTILINE))
        match = re.search(r"ustack: size (\d+), offset 0x([0-9a-f]+)", event)
        assert match
        size, offset = int(match[1]), int(match[2], 16)
        assert int.from_bytes(raw[offset : offset + 8], "little") == STACK_SIZE
        chain = re.findall(r"^\s+[0-9a-f]+ (\S+)\+0x([0-9a-f]+)$", event, re.MULTILINE)
        found.append(
            (
                tuple(int(named[name], 16) for name in REGISTERS),
                bytes(raw[offset + 8 : offset + 8 + size]),
                [(name, int(value, 16)) for name, value in chain],
            )
        )
    return found
