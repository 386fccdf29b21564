"""Known call chains through the programs, the buffer and the store: each frame is exact."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kernel_delay.model import Sample, StackFrame
from kernel_delay.symbols.mappings import read_mappings
from tests.event_captures import capture, event_plan, events_of, user_stack
from tests.integration.symbols.call_chains import (
    TO_MAIN,
    gcc,
    gcc_library,
    running,
    short_name,
)
from tests.integration.symbols.test_unwind_gdb import frames_by_gdb
from tests.needs import needed
from tests.workload import SOURCES

BIG = ["stop_here", "untouched", "big_frame", "main"]


def stack_of(
    command: list[object], before: Callable[[int, int], None] | None = None, **options: object
) -> tuple[tuple[StackFrame, ...], Sample]:
    """Capture the getppid that ends the chain; its stack is named when the process is gone."""
    with running(command) as run:
        run.wait_for_read()
        if before:
            before(run.process.pid, run.tid)
        plan = event_plan("getppid", **options)
        sample = capture(run.process.pid, plan, run.go_on)
        tid = run.tid
    assert sample.window.ended_by == "exit"
    (event,) = (event for event in events_of(sample) if event.tid == tid)
    return user_stack(sample, event), sample


def names(frames: tuple[StackFrame, ...], count: int) -> list[str | None]:
    return [short_name(frame) for frame in frames[:count]]


@pytest.mark.parametrize("chain", TO_MAIN)
def test_frames_from_the_call_to_the_start_are_exact(call_chain: Path, chain: str) -> None:
    frames, sample = stack_of([call_chain, chain])
    expected = TO_MAIN[chain]
    assert names(frames, len(expected)) == expected
    *libc, start = frames[len(expected) :]
    assert libc
    assert all("libc.so" in (frame.object or "") for frame in libc)
    assert (start.name, start.object) == ("_start", str(call_chain))
    lost = sample.lost
    assert (lost.stacks, lost.truncated_stacks, lost.failed_unwinds) == (0, 0, 0)


@pytest.mark.parametrize("chain", ["thread", "leaderless"])
def test_a_thread_ends_in_its_clone(call_chain: Path, chain: str) -> None:
    frames, sample = stack_of([call_chain, chain])
    expected = ["stop_here", *["recurse"] * 6, "recursion", "thread_main"]
    assert [frame.name for frame in frames[:-2]] == expected
    assert all("libc.so" in (frame.object or "") for frame in frames[-2:])
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 0)


@pytest.mark.parametrize("chain", ["recursion", "alloca", "library", "signal", "fault", "thread"])
def test_gdb_sees_the_same_frames(call_chain: Path, chain: str, tmp_path: Path) -> None:
    needed("gdb")
    theirs: list[int] = []

    def ask_gdb(pid: int, tid: int) -> None:
        theirs.extend(address for address, _ in frames_by_gdb(pid, tid, tmp_path))

    frames, _ = stack_of([call_chain, chain], ask_gdb)
    # The innermost is at its read there, and at its next call here.
    assert [frame.address for frame in frames[1:]] == theirs[1:]
    assert len(theirs) > 4


def test_source_lines_and_inlined_functions_where_asked_for(call_chain: Path) -> None:
    frames, _ = stack_of([call_chain, "inlined"], source=True)
    assert [(frame.name, frame.inlined) for frame in frames[:5]] == [
        ("stop_here", False),
        ("inlined_inner", True),
        ("inlined_outer", True),
        ("inlined", False),
        ("main", False),
    ]
    assert all("call_chain.c:" in (frame.source or "") for frame in frames[:5])


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="arm64's frames are copied whole")
def test_inside_of_a_large_frame_is_not_copied(call_chain: Path) -> None:
    # Pages are copied whole: what is below the frame and what is above may each lie in two.
    frames, sample = stack_of([call_chain, "big"], stack_bytes=3 * 4096)
    assert names(frames, 4) == BIG
    assert frames[-1].name == "_start"
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 0)


def test_a_longer_copy_has_it_whole(call_chain: Path) -> None:
    frames, sample = stack_of([call_chain, "big"], stack_bytes=98304)
    assert names(frames, 4) == BIG
    assert frames[-1].name == "_start"
    assert sample.lost.truncated_stacks == 0


@pytest.mark.skipif("generated" not in TO_MAIN, reason="the generated code is x86-64's")
def test_code_that_says_nothing_of_its_caller_is_counted(call_chain: Path) -> None:
    frames, sample = stack_of([call_chain, "generated-opaque"])
    assert names(frames, 9) == ["stop_here", "[anon]"]
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 1)


@pytest.fixture
def perf_map() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Write a perf map that names its generated code, as a compiler in the process would."""
    with ExitStack() as closing:

        def named(name: str) -> Callable[[int, int], None]:
            def write(pid: int, tid: int) -> None:
                (code,) = [
                    mapping
                    for mapping in read_mappings(Path(f"/proc/{pid}"))
                    if mapping.executable and not mapping.path
                ]
                path = Path(f"/tmp/perf-{pid}.map")
                closing.callback(path.unlink)
                path.write_text(f"{code.start:x} {code.end - code.start:x} {name}\n")

            return write

        yield named


@pytest.mark.skipif("generated" not in TO_MAIN, reason="the generated code is x86-64's")
def test_generated_code_has_the_names_of_its_perf_map(
    call_chain: Path, perf_map: Callable[[str], Callable[[int, int], None]]
) -> None:
    frames, sample = stack_of([call_chain, "generated"], perf_map("LMain;::loop"))
    assert names(frames, 5) == ["stop_here", "LMain;::loop", "run_generated", "generated", "main"]
    assert (frames[1].object or "").startswith("/tmp/perf-")
    assert sample.lost.failed_unwinds == 0


@pytest.mark.skipif("generated" not in TO_MAIN, reason="the generated code is x86-64's")
def test_a_trampoline_of_cpython_leads_to_its_caller(
    call_chain: Path, perf_map: Callable[[str], Callable[[int, int], None]]
) -> None:
    frames, sample = stack_of([call_chain, "generated-opaque"], perf_map("py::f:/a.py"))
    expected = ["stop_here", "py::f:/a.py", "run_generated", "generated_opaque", "main"]
    assert names(frames, 5) == expected
    assert frames[-1].name == "_start"
    assert (sample.lost.truncated_stacks, sample.lost.failed_unwinds) == (0, 0)


def test_frame_pointers_are_walked_where_there_are_some(call_chain: Path, tmp_path: Path) -> None:
    program = tmp_path / "with_frame_pointers"
    library = call_chain.parent / "libcall_chain.so"
    options = ["-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-pthread"]
    rpath = f"-Wl,-rpath,{library.parent}"
    gcc(program, *options, rpath, SOURCES / "call_chain.c", library)
    frames, _ = stack_of([program, "recursion"], stack_mode="fp")
    expected = TO_MAIN["recursion"]
    assert names(frames, len(expected)) == expected


def test_walk_without_frame_pointers_ends_outside_of_code(call_chain: Path) -> None:
    frames, _ = stack_of([call_chain, "recursion"], stack_mode="fp")
    assert frames[0].name == "stop_here"
    assert all(frame.object for frame in frames)


def test_no_stacks_where_none_are_asked_for(call_chain: Path) -> None:
    with running([call_chain, "recursion"]) as run:
        run.wait_for_read()
        sample = capture(run.process.pid, event_plan("getppid", stack_mode="none"), run.go_on)
    (event,) = events_of(sample)
    assert (event.kernel_stack, event.user_stack, sample.stacks) == (None, None, ())
    assert sample.lost.stacks == 0


def test_a_library_of_another_mount_namespace(call_chain: Path, tmp_path: Path) -> None:
    """As in a container: our own file of that path is another."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces can't be made here")
    inside, program = tmp_path / "inside", tmp_path / "program"
    inside.mkdir()
    library = call_chain.parent / "libcall_chain.so"
    gcc(program, "-pthread", f"-Wl,-rpath,{inside}", SOURCES / "call_chain.c", library)
    gcc_library(inside / library.name, "-DOTHER")
    mount = f"mount -t tmpfs none {inside} && cp {library} {inside}"
    command = ["unshare", "-m", "sh", "-c", f"{mount} && exec {program} library"]
    frames, _ = stack_of([*command])
    assert [frame.name for frame in frames[2:5]] == ["library_enter", "library", "main"]
    assert [frame.object for frame in frames[1:3]] == [str(inside / library.name)] * 2
    assert frames[-1].name == "_start"
