"""It reads its own memory map from /proc all the time, which the kernel writes anew each time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause


def victim() -> None:
    import mmap

    maps = [mmap.mmap(-1, 4096, prot=mmap.PROT_READ << (at % 2)) for at in range(2000)]
    tell()
    while maps:
        Path("/proc/self/smaps").read_bytes()


@contextmanager
def stage() -> Iterator[Staged]:
    with running(victim) as process:
        yield Staged(
            process.pid,
            cause("kernel_work", names=("read",), also=("doubtful_user", "user_work")),
        )
