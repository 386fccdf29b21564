"""python -m bench.serving FILE: what a watch costs servers on this kernel, to FILE as JSON.

All is on one CPU: in an emulated guest the others stand still meanwhile, and time goes on.
"""

import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench import served
from bench.figures import Absence, Figure
from bench.measures.servers import Started, block
from bench.peers.ours import OurCommand
from bench.rounds import interleaved

ROUNDS = 3
SERVERS: dict[str, Started] = {
    "redis GET": partial(served.redis, call="get", count=20_000),
    "nginx": partial(served.nginx, count=5_000),
}
PEERS = (OurCommand("watch"), OurCommand("watch", "--calls"))


class Serving(msgspec.Struct, frozen=True):
    """The figures, and who could not be measured."""

    figures: list[Figure]
    absent: list[Absence]


def main() -> int:
    """Run one server after the other."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = Serving([], [])
    for name, started in SERVERS.items():
        with TemporaryDirectory() as folder, started(Path(folder)) as server:
            figures, absent = interleaved(
                PEERS, ROUNDS, server.pid, partial(block, name, server), "µs"
            )
        found.figures.extend(figures)
        found.absent.extend(absent)
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(found))
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
