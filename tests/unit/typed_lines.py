"""A shell on a terminal, and what it makes of a line where TAB is pressed."""

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

CTRL_T = "\x14"

# Not how long it takes: what is taken for a hang.
HANG_S = 400


def after_tab(
    shell: Sequence[str | Path],
    environment: Mapping[str, str],
    folder: Path,
    kept: Path,
    lines: Iterable[str],
) -> list[str]:
    """Each of the lines as it stands after TAB, typed in `folder`.

    The shell is one that appends its line to the file `kept` at Ctrl-T, and empties it.
    """
    kept.touch()
    ours, its = pty.openpty()
    with subprocess.Popen(
        ["setsid", "--ctty", *shell],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "TERM": "vt100", "HOME": os.fspath(folder), **environment},
        stdin=its,
        stdout=its,
        stderr=its,
    ) as process:
        os.close(its)
        try:
            for number, line in enumerate(lines, start=1):
                os.write(ours, f"{line}\t{CTRL_T}".encode())
                _read_until(ours, kept, number)
        finally:
            process.kill()
            os.close(ours)
    return kept.read_text().splitlines()


def _read_until(terminal: int, kept: Path, count: int) -> None:
    """Take what the shell draws until so many lines are kept."""
    drawn, deadline = b"", time.monotonic() + HANG_S
    while kept.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, drawn
        if select.select([terminal], [], [], 0.05)[0]:
            drawn += os.read(terminal, 65536)
