"""Which commands are tried, and what each must print where it succeeds."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from kernel_delay.model import Sample, ThreadTime
from lab.binaries import Binaries
from lab.instance import Datapath, Instance
from lab.traffic import Traffic
from tests import ovs_with_usdt
from tests.commands import run
from tests.integration import kernel_datapath
from tests.unit.monitor_recordings import record
from tests.workload import LASTS_S, Workload, compile_workload

FOLDER = "{folder}"
"""Stands in arguments for a folder that is new in each trial."""

SLEEP_S = 0.03
LOOP = f"""
import select, time
print("ready", flush=True)
poll = select.poll()
while True:
    poll.poll(20)
    time.sleep({SLEEP_S})
"""
"""Polls, and is slow between two polls, without taking much of a CPU."""

# What an assistant's client sends: the handshake, and a call of a tool.
HANDSHAKE = (
    {
        "method": "initialize",
        "id": 1,
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "faults", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"method": "tools/call", "id": 2, "params": {"name": "recordings", "arguments": {}}},
)


LONG_POLL = (
    "2026-11-26T01:31:00.000Z|00042|timeval|WARN|Unreasonably long 1312ms poll interval"
    " (12ms user, 34ms system)\n"
)

MONITORS = ("bridge-loop", "revalidator", "flows", "upcall-monitor", "upcall-cost")
OF_THE_MODULE = "datapath-ops"
READERS = ("report", "compare", "upcall-cost -r", "log", "fleet", "export", "mcp")


class Command(NamedTuple):
    """A command; what it writes must satisfy `check` where it ends with 0."""

    name: str
    arguments: Sequence[str]
    check: Callable[[str], bool]
    stdin: str = ""
    has_terminal: bool = False
    written: Sequence[str] = ()
    """Patterns of what it may leave in the folder."""
    is_endless: bool = False
    """It ends by SIGINT."""


def is_whole(stdout: str) -> bool:
    """Whether each thread's window went somewhere to the nanosecond."""
    sample = msgspec.json.decode(stdout, type=Sample)
    times = [thread.time for thread in sample.threads if thread.time]
    parts = [[getattr(time, field) for field in ThreadTime.__struct_fields__] for time in times]
    whole = all(min(each) >= 0 and sum(each) == sample.window.duration_ns for each in parts)
    return bool(parts) and whole


def are_long_rounds(stdout: str) -> bool:
    """Whether each line is a whole round that is as long as the loop's sleep or longer."""
    lines = stdout.splitlines()
    lengths = [json.loads(line)["window"]["duration_ns"] for line in lines]
    return bool(lines) and all(map(is_whole, lines)) and min(lengths) >= SLEEP_S * 1e9


def has_any(stdout: str) -> bool:
    """Whether it wrote anything."""
    return bool(stdout.strip())


def has_threads(stdout: str) -> bool:
    """Whether a table of threads was drawn."""
    return "THREAD" in stdout


def is_anything(stdout: str) -> bool:
    """Whatever it wrote."""
    return True


def are_json_lines(stdout: str) -> bool:
    """Whether each line is JSON; there may be none."""
    return all(isinstance(json.loads(line), dict) for line in stdout.splitlines())


@contextmanager
def commands(folder: Path, only: str) -> Iterator[Iterator[Command]]:
    """Those whose name has `only` in it; what they measure lives as long as this is entered."""
    with ExitStack() as stack:

        def found() -> Iterator[Command]:
            if _any_of(("capture", "where", "check", "probes", "watch", "top"), only):
                yield from _of_one_process(stack)
            if _any_of(READERS, only):
                yield from _of_recordings(folder, stack)
            if _any_of((*MONITORS, OF_THE_MODULE), only):
                yield from _of_open_vswitch(stack)

        yield (command for command in found() if only in command.name)


def _any_of(names: Sequence[str], only: str) -> bool:
    return any(only in name or only.startswith(name) for name in names)


def _of_one_process(stack: ExitStack) -> Iterator[Command]:
    workload = Workload([compile_workload("sleeps"), "nanosleep", 1_000_000_000, 1_000_000])
    stack.callback(workload.kill)
    workload.send()
    target = ("-p", str(workload.pid), "--sample-time", "0.05")
    recording = f"{FOLDER}/recording.kdr"
    yield Command("capture", (*target, "--json", "-"), is_whole)
    yield Command("capture -s", (*target, "-s", "--json", "-"), has_any)
    yield Command("capture -o", (*target, "-o", recording), is_anything, written=("recording.kdr",))
    yield Command("where", ("where", "-p", str(workload.pid)), has_any)
    yield Command("check", ("check",), has_any)
    yield Command("probes", ("probes", "-p", str(workload.pid)), is_anything)

    loop = Workload([sys.executable, "-c", LOOP])
    stack.callback(loop.kill)
    bounds = ("--threshold", "0.02", "--count", "2", "--time", "20", "--max-cpu", "100")
    watch = ("watch", "-p", str(loop.pid), *bounds)
    json_lines = ("--json", "-")
    yield Command("watch", watch, has_any)
    yield Command("watch --json", (*watch, *json_lines), are_long_rounds)
    yield Command("watch --chains", (*watch, "--chains", *json_lines), are_long_rounds)
    yield Command("watch --metrics", (*watch, "--metrics", "0", *json_lines), are_long_rounds)
    yield Command(
        "watch -o", (*watch, "-o", FOLDER, *json_lines), are_long_rounds, written=("*.kdr",)
    )
    yield Command(
        "top", ("top", "-p", str(loop.pid), "--delay", "0.1"), has_threads, has_terminal=True
    )


def _of_recordings(folder: Path, stack: ExitStack) -> Iterator[Command]:
    workload = Workload([compile_workload("sleeps"), "nanosleep", 1_000_000_000, 1_000_000])
    stack.callback(workload.kill)
    workload.send()
    kept, exported = folder / "kept.kdr", folder / "exported"
    run("-p", workload.pid, "--sample-time", "0.05", "--sample-count", "4", "-o", kept)
    run("export", "--parquet", exported, kept)

    def as_usual(*arguments: str) -> Command:
        usual = run(*arguments).stdout
        words = (word for word in arguments if not word.startswith("/"))
        return Command(" ".join(words), arguments, usual.__eq__)

    for options in ((), ("--summary",), ("--json",)):
        yield as_usual("report", *options, str(kept))
    yield as_usual("compare", f"{kept}@1-2", f"{kept}@3-4")
    yield as_usual("compare", "--json", f"{kept}@1-2", f"{kept}@3-4")
    upcalls = record(folder / "upcalls.kdr", "upcall-cost", 20)
    yield as_usual("report", "--json", str(upcalls))
    yield as_usual("upcall-cost", "-r", str(upcalls))
    log = folder / "ovs-vswitchd.log"
    log.write_text(LONG_POLL)
    yield as_usual("log", str(log))
    yield as_usual("fleet", str(exported))
    parquet = ("export", "--parquet", FOLDER, str(kept))
    yield Command("export", parquet, is_anything, written=("*",))
    questions = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in HANDSHAKE)
    yield Command("mcp", ("mcp", str(folder)), are_json_lines, stdin=questions)


def _of_open_vswitch(stack: ExitStack) -> Iterator[Command]:
    has_module = kernel_datapath.is_there()
    datapath: Datapath = "system" if has_module else "netdev"
    ovs = stack.enter_context(Instance(Binaries.under(ovs_with_usdt.build()), datapath=datapath))
    stack.enter_context(Traffic(ovs, rate=50, seconds=LASTS_S))
    target = ("-p", str(ovs.pid), "--json", "-")
    for name in (*MONITORS, *((OF_THE_MODULE,) if has_module else ())):
        is_endless = name == "upcall-cost"
        lasts = () if is_endless else ("--time", "1")
        yield Command(name, (name, *target, *lasts), are_json_lines, is_endless=is_endless)
    if not has_module:
        what = f"not tried, as the module openvswitch is not loaded: {OF_THE_MODULE}"
        print(what, file=sys.stderr)
