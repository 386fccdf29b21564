"""A virus scanner, or the like, lets it open files late (fanotify(7))."""

import ctypes
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.staging import running, tell
from tests.verdicts.truth import Staged, cause

ALLOWS_AFTER_S = 0.02

# include/uapi/linux/fanotify.h
FAN_CLASS_CONTENT, FAN_MARK_ADD, FAN_OPEN_PERM, FAN_ALLOW = 4, 1, 0x10000, 1
AT_FDCWD = -100


def scanner(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    reported = libc.fanotify_init(FAN_CLASS_CONTENT, os.O_RDONLY)
    mask = ctypes.c_uint64(FAN_OPEN_PERM)
    if reported < 0 or libc.fanotify_mark(reported, FAN_MARK_ADD, mask, AT_FDCWD, path.encode()):
        tell(refused=f"no fanotify permissions here: {os.strerror(ctypes.get_errno())}")
        return
    tell()
    while True:
        *_, file, _ = struct.unpack_from("<IBBHQii", os.read(reported, 4096))
        time.sleep(ALLOWS_AFTER_S)
        os.write(reported, struct.pack("<iI", file, FAN_ALLOW))
        os.close(file)


def victim(path: str) -> None:
    tell()
    while True:
        os.close(os.open(path, os.O_RDONLY))


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.touch()
        with running(scanner, path, name="scanner") as other, running(victim, path) as process:
            yield Staged(process.pid, cause("wait_fanotify", names=(other.pid,)))
