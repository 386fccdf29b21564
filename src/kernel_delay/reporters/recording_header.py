"""What a recording says of itself, as text."""

import datetime
import re
import shlex
from collections.abc import Iterator

from msgspec import structs

from kernel_delay.formatting import printable
from kernel_delay.model import Container, RecordedTarget, RecordingHeader, RecordingTrailer
from kernel_delay.reporters.layout import Layout

_LABEL_WIDTH = 13
_SHOWN_COMMAND_LINE = 200
_SHOWN_PROCESSES = 10
_HEX_ID = re.compile("[0-9a-f]{64}")

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
    if header.node is not None:
        yield _line("node", header.node)
    yield _line("kernel", f"Linux {header.kernel}")
    if header.boot_id is not None:
        yield _line("boot", header.boot_id)
    yield _line("tool", f"kernel-delay {header.tool}: {command}")
    yield _line("process", f"{target.comm} ({target.pid})")
    if header.others:
        others = ", ".join(f"{other.comm} ({other.pid})" for other in header.others)
        yield _line("with", others)
    if target.exe is not None:
        yield _line("program", target.exe)
    if target.command_line:
        yield _line("command line", shlex.join(target.command_line))
    if target.cgroup is not None:
        yield _line("cgroup", target.cgroup)
    if target.container is not None:
        yield _line("container", _container(target.container))


def head_lines(header: RecordingHeader, layout: Layout) -> Iterator[str]:
    """The same in short, at the head of a report; of a long command line its beginning."""
    target = header.target
    host = header.host if header.node in (None, header.host) else f"node {header.node}"
    machine = f"{host}, Linux {header.kernel} {header.machine}, {header.cpus} CPUs"
    yield from layout.comment(printable(f"kernel-delay {header.tool} on {machine}"))
    if not header.others:
        yield from _process_lines(target, layout)
        return
    # What each of them is called stands below, in the report of a window.
    named = [f"{each.pid} ({each.comm})" for each in (target, *header.others)]
    left = len(named) - _SHOWN_PROCESSES
    others = "1 other" if left == 1 else f"{left:,} others"
    more = f" and {others}" if left > 0 else ""
    listed = ", ".join(named[:_SHOWN_PROCESSES])
    yield from layout.comment(printable(f"Processes {listed}{more}"))


def _process_lines(target: RecordedTarget, layout: Layout) -> Iterator[str]:
    words = target.command_line
    # A program that gives itself a title leaves one word, as it is to be read.
    command_line = words[0] if len(words) == 1 else shlex.join(words)
    if len(command_line) > _SHOWN_COMMAND_LINE:
        command_line = command_line[:_SHOWN_COMMAND_LINE] + "…"
    process = f"Process {target.pid} ({target.comm})"
    yield from layout.comment(printable(f"{process}: {command_line}" if command_line else process))
    if target.container is not None:
        yield from layout.comment(printable(f"Container {short_container(target.container)}"))


def short_container(container: Container) -> str:
    """What it is called, without what nobody can read; not printable() yet."""
    container = structs.replace(container, id=_short(container.id))
    if container.pod_name is not None:
        container = structs.replace(container, pod=None)
    return _container(container)


def _short(container_id: str | None) -> str | None:
    """As `docker ps` and `podman ps` have it; LXC's are names, and stand as they are."""
    if container_id is None or not _HEX_ID.fullmatch(container_id):
        return container_id
    return container_id[:12]


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
    named = f"{container.name} ({container.id})" if container.name else container.id
    # LXC's have no other ID.
    parts = [
        container.id if container.name == container.id else named,
        f"of {container.runtime}" if container.runtime else None,
        f"in pod {_pod(container)}" if container.pod or container.pod_name else None,
    ]
    return " ".join(part for part in parts if part)


def _pod(container: Container) -> str | None:
    if container.pod_name is None:
        return container.pod
    name = f"{container.pod_namespace}/{container.pod_name}"
    return f"{name} ({container.pod})" if container.pod else name


def _line(label: str, text: str) -> str:
    return f"{label + ':':{_LABEL_WIDTH}} {printable(text)}\n"
