"""What it costs servers that people run: more time for each request, and slower answers."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import served
from bench.figures import Absence, Figure
from bench.measures.measure import Measure, Setting
from bench.peers.kernel_delay_py import KernelDelayPy
from bench.peers.ours import OurCommand, Ours
from bench.peers.peer import Peer
from bench.rounds import interleaved

REQUEST, SLOWEST = "a request", "99th percentile"

Started = Callable[[Path], AbstractContextManager[served.Server]]

SERVERS: Sequence[tuple[str, Started]] = (
    ("redis SET", partial(served.redis, call="set")),
    ("redis GET", partial(served.redis, call="get")),
    ("nginx", served.nginx),
    ("PostgreSQL", served.postgres),
)


class Servers(Measure):
    """Servers of one process, and one that has a process for each session."""

    name = "servers"
    title = "Requests of redis, nginx and PostgreSQL"
    method = (
        "A server has one CPU, and its clients, four connections, have another. They are"
        " redis-benchmark over a Unix socket, ab with keep-alive for a file of 1,000 bytes, and"
        " pgbench -S. The figure of a"
        " request is CPU time of the server, so others that have its CPU do not count. The 99th"
        " percentile is of the answers as the client sees them. PostgreSQL is measured with the"
        " processes of its sessions (`--children`); kernel_delay.py measures one process alone."
        " Before version 1c828189 `watch` hooked each call, as `--calls` does:"
        " [what it costs since](../how-to/watch.md#what-it-costs)."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Run one server after the other."""
        figures: list[Figure] = []
        absent: dict[tuple[str, str], Absence] = {}
        for name, started in SERVERS:
            # Not the bench's, which others may not look into: two give up root's rights.
            with TemporaryDirectory() as folder, started(Path(folder)) as server:
                found, lacking = interleaved(
                    _peers(name), setting.rounds, server.pid, partial(_block, name, server), "µs"
                )
            figures += found
            absent.update({(each.peer, each.reason): each for each in lacking})
        return figures, [*absent.values()]


def _peers(name: str) -> Sequence[Peer]:
    if name == "PostgreSQL":
        return [Ours("--children")]
    return [Ours(), OurCommand("watch"), OurCommand("watch", "--calls"), KernelDelayPy()]


def _block(name: str, server: served.Server) -> dict[str, float]:
    before_ns = server.cpu_ns()
    answers = server.ask()
    request_ns = (server.cpu_ns() - before_ns) / answers.requests
    return {
        f"{name}: {REQUEST}": request_ns / 1000,
        f"{name}: {SLOWEST}": answers.p99_us,
    }
