"""Stacks of a program whose call chains are known: each frame, no more and no less."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.call_chains import (
    TO_MAIN,
    X86_64,
    frames_after_exit,
    running,
    short_name,
    stopped_in_read,
)
from tests.needs import needed


@pytest.mark.parametrize("chain", TO_MAIN)
def test_frames_from_the_read_to_the_start_are_exact(call_chain: Path, chain: str) -> None:
    stack, frames = frames_after_exit([call_chain, chain])
    expected = TO_MAIN[chain]
    assert [short_name(frame) for frame in frames[: len(expected)]] == expected
    *libc, start = frames[len(expected) :]
    assert libc
    assert all("libc.so" in (frame.object or "") for frame in libc)
    assert (start.name, start.object) == ("_start", str(call_chain))
    assert stack.end == "whole"


@pytest.mark.parametrize("chain", ["thread", "leaderless"])
def test_a_thread_ends_in_its_clone(call_chain: Path, chain: str) -> None:
    stack, frames = frames_after_exit([call_chain, chain])
    expected = ["stop_here", *["recurse"] * 6, "recursion", "thread_main"]
    assert [frame.name for frame in frames[:-2]] == expected
    assert all("libc.so" in (frame.object or "") for frame in frames[-2:])
    assert stack.end == "whole"


def test_frames_say_their_object(call_chain: Path) -> None:
    _, frames = frames_after_exit([call_chain, "library"])
    program, library = str(call_chain), str(call_chain.parent / "libcall_chain.so")
    assert [frame.object for frame in frames[:5]] == [program, library, library, program, program]


def test_an_interrupted_function_is_named_by_its_very_instruction(call_chain: Path) -> None:
    stack, frames = frames_after_exit([call_chain, "fault"])
    assert (frames[3].name, frames[3].offset) == ("faults_at_once", 0)
    assert stack.exact[:5] == (True, False, True, True, False)


@pytest.mark.skipif(not X86_64, reason="the generated code is x86-64's")
def test_generated_code_without_frame_pointer_ends_the_stack(call_chain: Path) -> None:
    stack, frames = frames_after_exit([call_chain, "generated-opaque"])
    assert [short_name(frame) for frame in frames] == ["stop_here", "[anon]"]
    assert stack.end == "lost"


def test_short_copy_has_the_inner_frames_and_ends_short(call_chain: Path) -> None:
    with running([call_chain, "recursion"]) as run, stopped_in_read(run) as thread:
        registers = thread.registers()
        sp, copy = thread.stack()
        with ProcessImage(run.process.pid) as image:
            space = AddressSpace(image)
            whole = space.unwind(registers, copy, sp)
            lengths = []
            for size in range(0, len(copy), 8):
                part = space.unwind(registers, copy[:size], sp)
                assert part.pcs == whole.pcs[: len(part.pcs)]
                assert part.end == ("whole" if part.pcs == whole.pcs else "short")
                lengths.append(len(part.pcs))
            space.close()
    assert lengths[0] == 1
    assert lengths == sorted(lengths)
    assert set(lengths) == set(range(1, len(whole.pcs) + 1))


AFTER = {"plt": {"library_nothing"}, "vdso": {"[vdso]"}}


@pytest.mark.parametrize("chain", AFTER)
def test_every_single_instruction_unwinds(call_chain: Path, chain: str) -> None:
    """Through prologues and epilogues, the PLT, the dynamic linker, libc and the vDSO.

    The vDSO reads the clock anew while the kernel changes it, at each tick: a thread
    that is unwound at every turn of that loop would never come out of it. So each
    place is unwound the first time only.
    """
    seen: set[str | None] = set()
    places: set[tuple[int, int]] = set()
    broken = []
    steps = 0
    with (
        running([call_chain, chain]) as run,
        stopped_in_read(run) as thread,
        ProcessImage(run.process.pid) as image,
    ):
        space = AddressSpace(image)
        sp, copy = thread.stack()
        outer = space.unwind(thread.registers(), copy, sp).pcs[2:]
        run.go_on()
        while True:
            thread.step()
            steps += 1
            assert steps < 200_000, seen
            if (place := thread.place()) in places:
                continue
            places.add(place)
            sp, copy = thread.stack()
            stack = space.unwind(thread.registers(), copy, sp)
            frames = space.frames(stack)
            if stack.end != "whole" or stack.pcs[-len(outer) :] != outer:
                broken.append([(frame.name, frame.offset) for frame in frames])
            if frames[0].name == "stop_here" and AFTER[chain] <= seen:
                break
            seen |= {frames[0].name, frames[0].object}
        space.close()
    assert not broken


def test_inlined_functions_and_lines_are_those_of_addr2line(call_chain: Path) -> None:
    needed("addr2line", "nm")
    _, frames = frames_after_exit([call_chain, "inlined"], source=True)
    names = [(frame.name, frame.inlined) for frame in frames[:5]]
    assert names == [
        ("stop_here", False),
        ("inlined_inner", True),
        ("inlined_outer", True),
        ("inlined", False),
        ("main", False),
    ]
    debug = call_chain.parent / ".debug" / "call_chain.debug"
    start = frames[3].address - frames[3].offset
    symbol = subprocess.run(["nm", debug], check=True, capture_output=True, text=True).stdout
    match = re.search(r"^([0-9a-f]+) t inlined$", symbol, re.MULTILINE)
    assert match
    call = frames[3].address - 1 - start + int(match[1], 16)
    lines = subprocess.run(
        ["addr2line", "-i", "-e", debug, hex(call)], check=True, capture_output=True, text=True
    ).stdout.split("\n")[:3]
    assert [frame.source for frame in frames[1:4]] == [line.split(" (")[0] for line in lines]


def test_inlined_functions_that_dwz_moved_to_a_shared_file(
    call_chain: Path, tmp_path: Path
) -> None:
    needed("dwz")
    debug = [tmp_path / name for name in ("call_chain.debug", "twin.debug")]
    for copy in debug:
        shutil.copy(call_chain.parent / ".debug" / "call_chain.debug", copy)
    shared = tmp_path / "shared.debug"
    subprocess.run(["dwz", "-m", shared, *debug], check=True)
    program = tmp_path / "call_chain"
    shutil.copy(call_chain, program)
    _, frames = frames_after_exit([program, "inlined"], source=True)
    names = ["stop_here", "inlined_inner", "inlined_outer", "inlined", "main"]
    assert [frame.name for frame in frames[:5]] == names
