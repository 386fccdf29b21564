"""python -m tests.faults.run: each command, with its n-th call of one kind failing.

strace(1) makes the call fail, without the kernel seeing it. The command must then say in one line
what is wrong, with a code of sysexits.h that is no internal error, or go on and say what it says
without. Exits with 1 where one does neither.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from kernel_delay.model import Sample, ThreadTime
from tests.commands import Done, run
from tests.needs import needed
from tests.workload import Workload, compile_workload

# Each call, and what it can fail with: bpf(2), open(2), read(2) and so on.
ERRORS: Mapping[str, Sequence[str]] = {
    "bpf": ("EPERM", "ENOMEM", "EINVAL", "EAGAIN", "E2BIG"),
    "openat": ("EACCES", "EMFILE", "ENFILE", "ENOENT", "ENOMEM"),
    "read": ("EIO", "ENOMEM"),
    "mmap": ("ENOMEM", "EAGAIN"),
    "write": ("ENOSPC", "EIO", "EPIPE"),
    "perf_event_open": ("EACCES", "EMFILE", "ENODEV"),
    "poll,ppoll,epoll_wait,pselect6,select": ("ENOMEM", "EINTR"),
    "clone,clone3,fork,vfork": ("EAGAIN", "ENOMEM"),
}

# What kernel-delay does first; before, the dynamic linker and Python start.
FIRST = '"/proc/self/comm"'

INTERNAL = (os.EX_SOFTWARE,)
CODES = range(os.EX_USAGE, os.EX_CONFIG + 1)
PIPE = 141


class Command(NamedTuple):
    """A command; what it writes must satisfy `check` where it ends with 0."""

    name: str
    arguments: Sequence[str]
    check: Callable[[str], bool]


class Trial(NamedTuple):
    """That a call of a command fails: the `n`-th of these, with that error."""

    command: Command
    calls: str
    n: int
    error: str


class Ended(NamedTuple):
    """How a trial ended; `began`: a line of kernel-delay had run when the call failed."""

    done: Done
    began: bool


def is_whole(stdout: str) -> bool:
    """Whether each thread's window went somewhere to the nanosecond."""
    sample = msgspec.json.decode(stdout, type=Sample)
    times = [thread.time for thread in sample.threads if thread.time]
    parts = [[getattr(time, field) for field in ThreadTime.__struct_fields__] for time in times]
    whole = all(min(each) >= 0 and sum(each) == sample.window.duration_ns for each in parts)
    return bool(parts) and whole


def has_any(stdout: str) -> bool:
    """Whether it wrote anything."""
    return bool(stdout.strip())


def commands(pid: int, folder: Path) -> Iterator[Command]:
    """What is tried, on that process and in that folder."""
    target = ("-p", str(pid), "--sample-time", "0.05")
    yield Command("capture", (*target, "--json", "-"), is_whole)
    yield Command("capture -s", (*target, "-s", "--json", "-"), has_any)
    recording = str(folder / "recording.kdr")
    yield Command("capture -o", (*target, "-o", recording, "--quiet"), lambda stdout: True)
    kept = folder / "kept.kdr"
    run(*target, "-o", kept)
    for options in ((), ("--summary",), ("--json",)):
        usual = run("report", *options, kept).stdout
        name = " ".join(("report", *options))
        yield Command(name, ("report", *options, str(kept)), usual.__eq__)
    yield Command("where", ("where", "-p", str(pid)), has_any)
    yield Command("check", ("check",), has_any)


def calls_made(command: Command, calls: str) -> int:
    """How many of these calls it makes where none fails."""
    with tempfile.NamedTemporaryFile() as log:
        run(*command.arguments, within=(*strace(log.name), "-e", f"trace={calls}"))
        lines = Path(log.name).read_text(errors="replace").splitlines()
    return sum(bool(re.match(r"\d+ +\w+\(", line)) for line in lines)


def strace(log: str) -> tuple[str, ...]:
    """strace, of it and its children; the status is the command's."""
    return (needed("strace"), "-f", "--seccomp-bpf", "-qq", "-o", log)


def trials(command: Command, each: int, errors: Iterator[int]) -> Iterator[Trial]:
    """Yield `each` trials of every kind of call, from its first to its last."""
    for calls, found in ERRORS.items():
        made = calls_made(command, calls)
        ordinals = {1 + place * (made - 1) // max(1, each - 1) for place in range(each)}
        for n in sorted(ordinals) if made else ():
            yield Trial(command, calls, n, found[next(errors) % len(found)])


def fails(trial: Trial) -> Ended:
    """Run it with that call failing."""
    inject = f"inject={trial.calls}:error={trial.error}:when={trial.n}"
    with tempfile.NamedTemporaryFile() as log:
        within = (*strace(log.name), "-e", f"trace={trial.calls},openat", "-e", inject)
        done = run(*trial.command.arguments, within=within)
        lines = Path(log.name).read_text(errors="replace").splitlines()
    first = next((place for place, line in enumerate(lines) if FIRST in line), len(lines))
    return Ended(done, not any("(INJECTED)" in line for line in lines[:first]))


def complaint(trial: Trial, done: Done) -> str | None:
    """What is wrong with how it ended; None if nothing is."""
    if "Traceback" in done.stderr or "internal error" in done.stderr:
        return "a traceback, or an internal error"
    if done.returncode == 0:
        return None if trial.command.check(done.stdout) else "the output is another"
    if done.returncode in INTERNAL or done.returncode not in (*CODES, PIPE):
        return f"exit status {done.returncode}"
    errors = done.stderr.strip().splitlines()
    # What was to be said may be what could not be written.
    if done.returncode == PIPE or (not errors and trial.calls == "write"):
        return None
    # Its table says what is missing.
    if trial.command.name == "check" and has_any(done.stdout):
        return None
    if not errors or not errors[-1].startswith("kernel-delay: "):
        return "no line that says what is wrong"
    return None


def main() -> int:
    """Run them, print each complaint; the exit status."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--each", type=int, default=8, metavar="N", help="trials of a call")
    parser.add_argument("--only", default="", metavar="TEXT", help="commands with that in them")
    options = parser.parse_args()
    workload = Workload([compile_workload("sleeps"), "nanosleep", 1_000_000_000, 1_000_000])
    workload.send()
    counts: Counter[str] = Counter()
    errors = itertools.count()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for command in commands(workload.pid, Path(folder)):
                if options.only in command.name:
                    for trial in trials(command, options.each, errors):
                        counts[try_it(trial)] += 1
    finally:
        workload.process.kill()
    total = sum(counts.values())
    print(f"{total} calls failed: {dict(counts)}")
    return 1 if counts["complaints"] or not total else 0


def try_it(trial: Trial) -> str:
    """Run a trial and print what is wrong; return how it ended."""
    name = f"{trial.command.name}: {trial.calls} {trial.n} {trial.error}"
    try:
        ended = fails(trial)
    except subprocess.TimeoutExpired:
        print(f"{name}: hangs", flush=True)
        return "complaints"
    if not ended.began:
        return "before the first line of kernel-delay"
    done = ended.done
    wrong = complaint(trial, done)
    if wrong is not None:
        said = " | ".join(done.stderr.strip().splitlines()[-3:])
        print(f"{name}: {wrong}; status {done.returncode}; {said}", flush=True)
        return "complaints"
    return "went on" if done.returncode == 0 else "refused"


if __name__ == "__main__":
    sys.exit(main())
