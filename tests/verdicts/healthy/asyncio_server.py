"""A server on asyncio that nobody asks."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import HEALTHY, Staged


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    tell()
    await server.serve_forever()


def victim() -> None:
    asyncio.run(serve())


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(process.pid, HEALTHY)
