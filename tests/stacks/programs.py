"""Real programs under a load that makes system calls: each a process to measure."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType

from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from lab.traffic import Traffic
from tests.cache import built
from tests.comparisons import loads
from tests.integration import kernel_datapath
from tests.verdicts.postgres import USER, postgres
from tests.verdicts.programs import installed
from tests.workload import LASTS_S, wait_until, youngest_descendant

HERE = Path(__file__).parent
NEW_FLOWS = 1000

PERF_MAP = "/tmp/perf-{}.map"
"""Where a Java VM writes the names of its functions (jcmd Compiler.perfmap, from 17 on)."""

Start = Callable[[Path, ExitStack], int]
"""Starts a program and its load, which end with the stack, and returns the process to measure."""


def openvswitch(folder: Path, closing: ExitStack) -> int:
    """Have it handle new flows, of the kernel's datapath if there is one, and revalidate them."""
    binaries = Binaries.under(Path(os.environ["KERNEL_DELAY_OVS"]))
    datapath: Datapath = "system" if kernel_datapath.is_there() else "netdev"
    instance = closing.enter_context(Instance(binaries, datapath=datapath))
    closing.enter_context(Traffic(instance, rate=NEW_FLOWS, seconds=LASTS_S))
    ended = threading.Event()

    def revalidate() -> None:
        while not ended.wait(0.01):
            instance.appctl("revalidator/wait")

    revalidating = threading.Thread(target=revalidate)
    revalidating.start()
    closing.callback(revalidating.join)
    closing.callback(ended.set)
    return instance.pid


def postgresql(folder: Path, closing: ExitStack) -> int:
    """Have a backend read and write for pgbench."""
    server, sockets = closing.enter_context(postgres())
    client = [installed("pgbench"), "-h", sockets, "-U", USER, "postgres"]
    subprocess.run([*client, "-i", "-q"], check=True, stderr=subprocess.DEVNULL)
    _start(closing, *client, "-n", "-c", 1, "-T", int(LASTS_S))
    found: list[int] = []

    def is_found() -> bool:
        found[:] = _updating(server.pid)
        return bool(found)

    wait_until(is_found, "pgbench's backend")
    return found[0]


def served(load: Callable[[Path, ExitStack], loads.Load], folder: Path, closing: ExitStack) -> int:
    """Have a server answer its clients."""
    return load(folder, closing).pid


def python(folder: Path, closing: ExitStack) -> int:
    """Run CPython, as it is installed."""
    return _start(closing, sys.executable, HERE / "calls.py")


def go(flags: str, folder: Path, closing: ExitStack) -> int:
    """Run a program of Go: with frame pointers, and with .debug_frame unless it is stripped."""
    source = HERE / "calls.go"

    def make(folder: Path) -> None:
        environment = {**os.environ, "GO111MODULE": "off", "CGO_ENABLED": "0"}
        command = [installed("go"), "build", f"-ldflags={flags}", "-o", folder / "calls", source]
        subprocess.run([*map(str, command)], check=True, env=environment)

    return _start(closing, built("calls-go", make, source, flags) / "calls")


def java(folder: Path, closing: ExitStack) -> int:
    """Run compiled code of a Java VM that keeps frame pointers, with a perf map."""
    source = HERE / "Calls.java"

    def make(folder: Path) -> None:
        subprocess.run([installed("javac"), "-d", str(folder), str(source)], check=True)

    classes = built("calls-java", make, source)
    options = ("-XX:+PreserveFramePointer", "-Xshare:auto")
    pid = _start(closing, installed("java"), *options, "-cp", classes, "Calls")
    perf_map = Path(PERF_MAP.format(pid))
    closing.callback(perf_map.unlink, missing_ok=True)

    def is_compiled() -> bool:
        command = [installed("jcmd"), str(pid), "Compiler.perfmap"]
        subprocess.run(command, capture_output=True)
        return perf_map.exists() and "Calls.read" in perf_map.read_text(errors="replace")

    wait_until(is_compiled, "the compiler of Java", every_s=0.5)
    return pid


def c_program(kind: str, folder: Path, closing: ExitStack) -> int:
    """Run a stripped program without frame pointers."""
    source = HERE / "calls.c"
    flags = ("-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-s")

    def make(folder: Path) -> None:
        command = ["cc", *flags, str(source), "-o", str(folder / "calls")]
        subprocess.run(command, check=True)

    return _start(closing, built("calls", make, source, flags) / "calls", kind)


PROGRAMS: Mapping[str, Start] = MappingProxyType(
    {
        "openvswitch": openvswitch,
        "postgresql": postgresql,
        "nginx": partial(served, loads.nginx),
        "redis": partial(served, loads.redis),
        "python": python,
        "go": partial(go, ""),
        "go stripped": partial(go, "-s -w"),
        "java": java,
        "alloca": partial(c_program, "alloca"),
        "signal": partial(c_program, "signal"),
        "altstack": partial(c_program, "altstack"),
        "vdso": partial(c_program, "vdso"),
    }
)


def _updating(server: int) -> list[int]:
    """Those of the server's processes that update now: pgbench asks by another one first."""
    found = []
    for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):
            if b" UPDATE" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


def _start(closing: ExitStack, *command: object) -> int:
    process = subprocess.Popen(
        [*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    closing.callback(process.wait)
    closing.callback(process.kill)
    return youngest_descendant(process.pid)
