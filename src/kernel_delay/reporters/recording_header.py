"""What a recording says of itself, as text."""

import datetime
import shlex
from collections.abc import Iterator

from kernel_delay.model import Container, RecordingHeader, RecordingTrailer
from kernel_delay.printable import printable

_LABEL_WIDTH = 13

_ENDS = {
    "done": "all was measured that was asked for",
    "interrupt": "by a signal (Ctrl-C)",
    "exit": "as the process exited",
    "timeout": "as a trigger was not hit in time",
    "error": "as the tool failed",
}


def header_lines(header: RecordingHeader) -> Iterator[str]:
    """The lines, each with its end; what is not known has none."""
    target = header.target
    recorded = datetime.datetime.fromtimestamp(header.clock.realtime_ns // 10**9, datetime.UTC)
    command = shlex.join(["kernel-delay", *header.arguments])
    yield _line("recorded", f"{recorded:%Y-%m-%d %H:%M:%S} UTC")
    yield _line("host", f"{header.host}, {header.machine}, {header.cpus} CPUs")
    yield _line("kernel", f"Linux {header.kernel}")
    if header.boot_id is not None:
        yield _line("boot", header.boot_id)
    yield _line("tool", f"kernel-delay {header.tool}: {command}")
    yield _line("process", f"{target.comm} ({target.pid})")
    if target.exe is not None:
        yield _line("program", target.exe)
    if target.command_line:
        yield _line("command line", shlex.join(target.command_line))
    if target.cgroup is not None:
        yield _line("cgroup", target.cgroup)
    if target.container is not None:
        yield _line("container", _container(target.container))


def trailer_line(trailer: RecordingTrailer) -> str:
    """How it ended, and what is in it."""
    counts = [
        f"{count:,} {what}{'' if count == 1 else 's'}"
        for count, what in ((trailer.samples, "sample"), (trailer.events, "event"))
        if count
    ]
    lost = sum(trailer.lost.values())
    if lost:
        counts.append(f"{lost:,} events lost")
    return _line("ended", f"{_ENDS[trailer.ended]}; {', '.join(counts) or 'nothing was recorded'}")


def _container(container: Container) -> str:
    parts = [
        container.id,
        f"of {container.runtime}" if container.runtime else None,
        f"in pod {container.pod}" if container.pod else None,
    ]
    return " ".join(part for part in parts if part)


def _line(label: str, text: str) -> str:
    return f"{label + ':':{_LABEL_WIDTH}} {printable(text)}\n"
