"""The files behind a process's code: in its own namespace, replaced, gone, mapped later."""

import gc
import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kernel_delay.errors import NoInputError, UnavailableError
from kernel_delay.symbols import Frame, ProcessImage, process_image
from tests.integration.symbols.call_chains import build, gcc, gcc_library, running
from tests.needs import needed
from tests.workload import SOURCES, compile_workload

EXPECTED = ["stop_here", "library_inner", "library_enter", "library", "main"]

FRAMES_OF = [sys.executable, "-m", "tests.integration.symbols.frames_of"]

# Without these two /proc/PID/map_files can't be opened (proc_pid_map_files(5)).
WITHOUT_MAP_FILES = ["setpriv", "--bounding-set", "-sys_admin,-checkpoint_restore"]

RIGHTS = pytest.mark.parametrize("rights", [[], WITHOUT_MAP_FILES], ids=["all", "no map_files"])


@pytest.fixture
def program(call_chain: Path, tmp_path: Path) -> Path:
    """A copy of call_chain and its library to be spoilt."""
    return build(tmp_path)


def frames_of(command: list[object], rights: list[str], spoil: Callable[[], None]) -> list[Frame]:
    if rights:
        needed(rights[0])
    with running(command) as run:
        run.wait_for_read()
        spoil()
        tool = [*rights, *FRAMES_OF, run.process.pid, run.tid]
        out = subprocess.run([str(word) for word in tool], check=True, stdout=subprocess.PIPE)
    return msgspec.json.decode(out.stdout, type=list[Frame])


def test_program_that_maps_its_code_twice_has_its_functions() -> None:
    """As node does. Of its code where it is at first the functions have their names."""
    program = compile_workload("twice_mapped", "-no-pie")
    frames = frames_of([program], [], lambda: None)
    assert "main" in [frame.name for frame in frames]


@RIGHTS
def test_a_library_of_another_mount_namespace(
    program: Path, tmp_path: Path, rights: list[str]
) -> None:
    """As in a container: our own file of that path is another, and debug files are inside."""
    inside = tmp_path / "inside"
    inside.mkdir()
    library = tmp_path / "libcall_chain.so"
    debug = tmp_path / ".debug" / "libcall_chain.so.debug"
    gcc(program, "-pthread", f"-Wl,-rpath,{inside}", SOURCES / "call_chain.c", library)
    gcc_library(inside / library.name, "-DOTHER")
    by_build_id = f"/usr/lib/debug/.build-id/{build_id(library)[:2]}"
    script = f"""
        set -e
        mount -t tmpfs none {inside}
        cp {library} {inside}
        mount -t tmpfs none /usr/lib/debug
        mkdir -p {by_build_id} /usr/lib/debug/files
        cp {debug} /usr/lib/debug/files/library.debug
        ln -s /usr/lib/debug/files/library.debug {by_build_id}/{build_id(library)[2:]}.debug
        rm {debug}
        exec {program} library
    """
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces can't be made here")
    frames = frames_of(["unshare", "-m", "sh", "-c", script], rights, lambda: None)
    assert [frame.name for frame in frames[:5]] == EXPECTED
    assert frames[1].object == str(inside / library.name)
    assert frames[-1].name == "_start"


def test_a_replaced_library_is_read_as_it_was_mapped(program: Path) -> None:
    frames = frames_of([program, "library"], [], lambda: replace_library(program.parent))
    assert [frame.name for frame in frames[:5]] == EXPECTED
    assert frames[-1].name == "_start"


def test_unreachable_replaced_library_is_marked(program: Path) -> None:
    library = program.parent / "libcall_chain.so"
    frames = frames_of(
        [program, "library"], WITHOUT_MAP_FILES, lambda: replace_library(library.parent)
    )
    assert [frame.name for frame in frames[:5]] == [
        "stop_here",
        None,  # library_inner: not exported, and its file is gone
        "library_enter",
        "library",
        "main",
    ]
    assert [frame.object for frame in frames[1:3]] == [f"{library} (replaced)"] * 2
    assert frames[-1].name == "_start"


def test_unreachable_deleted_library_is_marked(program: Path) -> None:
    library = program.parent / "libcall_chain.so"
    frames = frames_of([program, "library"], WITHOUT_MAP_FILES, library.unlink)
    assert [frame.object for frame in frames[1:3]] == [f"{library} (deleted)"] * 2
    assert frames[-1].name == "_start"


def test_a_debug_file_of_another_build_is_not_used(program: Path) -> None:
    debug = program.parent / ".debug" / "libcall_chain.so.debug"
    other = program.parent / "other.so"
    gcc_library(other, "-DOTHER")
    frames = frames_of([program, "library"], [], lambda: other.rename(debug).touch())
    names = [frame.name for frame in frames[:5]]
    assert names == ["stop_here", None, "library_enter", "library", "main"]


def test_what_is_mapped_later_is_added(call_chain: Path) -> None:
    library = call_chain.parent / "libcall_chain.so"
    load = "ctypes.CDLL(sys.argv[1]); print('loaded', flush=True)"
    script = f"import ctypes, sys; input(); {load}; input()"
    command = [sys.executable, "-c", script, str(library)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        try:
            with ProcessImage(process.pid) as image:
                before = image.generation
                assert image.note()
                assert str(library) not in {found.code.path for found in image.objects}
                process.stdin.write(b"\n")
                process.stdin.flush()
                assert process.stdout.readline() == b"loaded\n"
                assert image.note()
                assert image.generation > before
                assert str(library) in {found.code.path for found in image.objects}
                generation = image.generation
                assert image.note()
                assert image.generation == generation
                process.kill()
                process.wait()
                assert not image.note()
                assert str(library) in {found.code.path for found in image.objects}
        finally:
            process.kill()


def test_a_process_that_is_not_there() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(NoInputError, match=f"process {process.pid} has exited"):
        ProcessImage(process.pid)


def limit_that_leaves(free: int) -> int:
    """The RLIMIT_NOFILE, one above the highest number there may be, with so many not in use."""
    used = {int(name) for name in os.listdir("/proc/self/fd")}
    unused = (number for number in itertools.count() if number not in used)
    return next(itertools.islice(unused, free, None))


def test_too_few_open_files_are_reported() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit_that_leaves(8), hard))
    try:
        with pytest.raises(UnavailableError, match="ulimit -n"):
            ProcessImage(os.getpid())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_files_are_given_back(call_chain: Path) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    # What other tests left may have some open, and would be collected meanwhile.
    gc.collect()
    before = open_files()
    with ProcessImage(os.getpid()) as image:
        assert image.note()
        assert open_files() > before
    assert open_files() == before


def replace_library(directory: Path) -> None:
    """As a package upgrade does: a new file takes the name, the old one stays mapped."""
    new = directory / "new.so"
    gcc_library(new, "-DOTHER")
    new.rename(directory / "libcall_chain.so")


def build_id(file: Path) -> str:
    notes = subprocess.run(["readelf", "-n", file], check=True, capture_output=True, text=True)
    return notes.stdout.split("Build ID: ")[1].split()[0]


def test_perf_map_is_read_from_inside_the_container() -> None:
    """Its /tmp is another, and there the process is number 1."""
    if os.geteuid():
        pytest.skip("namespaces need root")
    inside = "mount -t tmpfs none /tmp && echo 1000 10 inside >/tmp/perf-1.map && echo && exec cat"
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", inside]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout
        assert process.stdout.readline() == b"\n"
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        with ProcessImage(int(children)) as image:
            assert image.perf_map
            image.perf_map.refresh()
            assert image.perf_map.find(0x1008) == ("inside", 8)
        process.communicate()


def test_main_thread_may_end_while_the_process_is_read(
    call_chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it had memory a moment ago."""
    monkeypatch.setattr(process_image, "has_mappings", lambda path: True)
    with running([call_chain, "leaderless"]) as run:
        run.wait_for_read()
        stat = Path(f"/proc/{run.process.pid}/stat")
        while ") Z " not in stat.read_text():
            time.sleep(0.001)
        with ProcessImage(run.process.pid) as image:
            assert str(call_chain) in {found.code.path for found in image.objects}
            assert image.note()
