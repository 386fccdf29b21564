"""The call_chain workload: built, run, and stopped where its call chain is known."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kernel_delay.model import StackFrame
from kernel_delay.symbols import AddressSpace, Frame, ProcessImage, Stack
from tests.integration.symbols.stopped_thread import StoppedThread, stopped
from tests.workload import SOURCES, wait_until

FLAGS = [
    "-g",
    "-O2",
    "-fomit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--build-id",
    "-Wl,-z,lazy",
]

X86_64 = os.uname().machine == "x86_64"

# By the chain's name, its functions from the innermost to main.
TO_MAIN = {
    "recursion": ["stop_here", *["recurse"] * 6, "recursion", "main"],
    "alloca": ["stop_here", "with_alloca", "alloca_sizes", "main"],
    "library": ["stop_here", "library_inner", "library_enter", "library", "main"],
    "signal": ["stop_here", "on_signal", "(signal)", "interrupted", "signal_handler", "main"],
    "fault": ["stop_here", "on_signal", "(signal)", "faults_at_once", "fault", "main"],
}
if X86_64:
    TO_MAIN["generated"] = ["stop_here", "[anon]", "run_generated", "generated", "main"]


def short_name(frame: Frame | StackFrame) -> str | None:
    """The function; for code that has none of its own, what it is."""
    if frame.name in ("__restore_rt", "__kernel_rt_sigreturn"):
        return "(signal)"
    return frame.name or frame.object


def build(directory: Path) -> Path:
    """Build the program and its library there, stripped, with debug files in .debug."""
    library = directory / "libcall_chain.so"
    program = directory / "call_chain"
    (directory / ".debug").mkdir()
    gcc_library(library)
    gcc(program, "-pthread", f"-Wl,-rpath,{directory}", SOURCES / "call_chain.c", library)
    strip(program)
    strip(library)
    return program


def gcc_library(output: Path, *arguments: str) -> None:
    source = SOURCES / "call_chain_library.c"
    gcc(output, "-fPIC", "-shared", "-Wl,-soname,libcall_chain.so", *arguments, source)


def gcc(output: Path, *arguments: object) -> None:
    subprocess.run(["gcc", *FLAGS, *map(str, arguments), "-o", output], check=True)


def strip(file: Path) -> Path:
    """Move the file's debug information to where .gnu_debuglink is looked for."""
    debug = file.parent / ".debug" / f"{file.name}.debug"
    subprocess.run(["objcopy", "--only-keep-debug", file, debug], check=True)
    subprocess.run(["strip", file], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", file], check=True)
    return debug


class Running:
    """A running call_chain that has said which thread is about to read its standard input."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout
        self.tid = int(process.stdout.readline())

    def wait_for_read(self) -> None:
        wait_until(self._reads, "the workload's read(2)", every_s=0.001)

    def _reads(self) -> bool:
        return Path(f"/proc/{self.tid}/syscall").read_text().split()[:2] == [READ, "0x0"]

    def is_leaderless(self) -> bool:
        """Whether its first thread has ended."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "Z"

    def go_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


READ = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]


@contextlib.contextmanager
def running(command: list[object]) -> Iterator[Running]:
    arguments = [str(argument) for argument in command]
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdin=pipe, stdout=pipe) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


@contextlib.contextmanager
def stopped_in_read(run: Running) -> Iterator[StoppedThread]:
    run.wait_for_read()
    with stopped(run.tid) as thread:
        yield thread


def frames_after_exit(command: list[object], source: bool = False) -> tuple[Stack, list[Frame]]:
    """Take the stack of a call chain, and unwind and name it when the process is gone."""
    with running(command) as run:
        if "leaderless" in command:
            # While it ends, the first thread loads a library, and then has no maps any more.
            wait_until(run.is_leaderless, "the end of the first thread", every_s=0.001)
        with stopped_in_read(run) as thread:
            registers = thread.registers()
            sp, copy = thread.stack()
        image = ProcessImage(run.process.pid)
    with image:
        space = AddressSpace(image, source)
        try:
            stack = space.unwind(registers, copy, sp)
            return stack, list(space.frames(stack))
        finally:
            space.close()
