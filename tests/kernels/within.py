"""Runs a command in a guest: python -m tests.kernels.within "Debian 13" COMMAND [ARGUMENT...].

Its output comes as it is printed; the exit status is the command's.
"""

import argparse
import subprocess
import sys
import threading
from pathlib import Path

from tests.debian import DebianError
from tests.kernels.guest import GuestError, kvm_boots
from tests.kernels.images import MissingImageError, fetch, listed_kernels
from tests.kernels.run import RESULTS, kind_of_guest, open_vswitches


def main() -> int:
    """Boot it, run the command, and print what it printed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.within", description=__doc__)
    parser.add_argument("--limit", type=float, default=1800, help="how long it may be silent, in s")
    parser.add_argument("kernel", choices=[kernel.name for kernel in listed_kernels()])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    (kernel,) = (kernel for kernel in listed_kernels() if kernel.name == options.kernel)
    try:
        image = fetch(kernel)
        variables = open_vswitches(kernel.open_vswitch, kernel.architecture)
    except (DebianError, MissingImageError, subprocess.CalledProcessError) as error:
        print(f"within: {error}", file=sys.stderr)
        return 1
    results = RESULTS / f"within-{image.release}"
    guest = kind_of_guest(image)(image, kvm_boots(image, RESULTS / "kvm"), results)
    ended = threading.Event()
    printer = threading.Thread(target=_print, args=(guest.console, ended))
    printer.start()
    try:
        return guest.run(["env", *variables, *options.command], options.limit)
    except GuestError as error:
        print(f"within: {error}", file=sys.stderr)
        return 1
    finally:
        ended.set()
        printer.join()


def _print(console: Path, ended: threading.Event) -> None:
    """Print what comes to the console, until the guest has ended."""
    at = 0
    while True:
        is_last = ended.wait(0.5)
        text = console.read_bytes() if console.exists() else b""
        sys.stdout.write(text[at:].decode(errors="replace"))
        sys.stdout.flush()
        at = len(text)
        if is_last:
            return


if __name__ == "__main__":
    sys.exit(main())
