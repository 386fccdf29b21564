"""The file system that it writes to is frozen half of the time (fsfreeze(8))."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import NotHereError, Staged, cause
from tests.verdicts.turns import by_turns

SIZE = 32 << 20


def victim(path: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    tell()
    while True:
        os.pwrite(file, b"x", 0)


@contextmanager
def mounted() -> Iterator[str]:
    """A file system of the stage's own."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        image, place = Path(folder) / "image", Path(folder) / "mounted"
        with image.open("wb") as file:
            file.truncate(SIZE)
        place.mkdir()
        for command in (("mkfs.ext4", "-q", image), ("mount", "-o", "loop", image, place)):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotHereError(f"{command[0]}: {done.stderr.strip()}")
        try:
            yield str(place)
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)


@contextmanager
def stage() -> Iterator[Staged]:
    with mounted() as folder:

        def freeze() -> None:
            subprocess.run(["fsfreeze", "--freeze", folder], check=True)

        def thaw() -> None:
            subprocess.run(["fsfreeze", "--unfreeze", folder], check=True)

        with (
            running(victim, f"{folder}/file") as process,
            by_turns(freeze, thaw, 0.1),
        ):
            yield Staged(
                process.pid,
                cause("wait_frozen_filesystem", also=("kernel_work", "kernel_sleep")),
            )
