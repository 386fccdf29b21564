"""Debug files from the servers that $DEBUGINFOD_URLS names; without it nobody is asked.

elfutils' debuginfod-find(1) asks, and keeps what it got in its cache: a client of our own would
have to know its rules for servers, time-outs, signatures and what is not there.
"""

import os

from kernel_delay.errors import UnavailableError

URLS = "DEBUGINFOD_URLS"
CLIENT = "debuginfod-find"

# A debug file of 30 MiB takes some seconds. $DEBUGINFOD_TIMEOUT is for one that stands still.
MOST_S = 120


def is_asked_for() -> bool:
    """Whether there are servers to be asked."""
    return bool(os.environ.get(URLS, "").strip())


def fetch_debug_file(build_id: bytes) -> str:
    """Return the path of the debug file of that build-id. UnavailableError if there is none."""
    import subprocess

    command = [CLIENT, "debuginfo", build_id.hex()]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_S, check=False
        )
    except FileNotFoundError:
        raise UnavailableError(
            f"{URLS} is set, but {CLIENT} is not installed"
            " (package elfutils-debuginfod-client, of Debian and Ubuntu debuginfod)"
        ) from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"debuginfod did not answer within {MOST_S} s") from None
    if done.returncode != 0:
        # "Server query failed: No such file or directory"
        reason = done.stderr.decode(errors="backslashreplace").strip().rpartition(": ")[2]
        raise UnavailableError(f"debuginfod has no debug file ({reason or 'it does not say why'})")
    return os.fsdecode(done.stdout.strip())
