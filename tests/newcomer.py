"""python -m tests.newcomer: what CONTRIBUTING.md promises to who comes new, in a fresh Debian 12.

In a root that has git, make and Python alone, a clone of what is committed is set up by `make dev`;
then a line of Python is edited, and one of a BPF program's, and one test is run after each. That
test has to see the edit: it fails with the first, and passes again with that undone. Prints the
seconds of each; they are read, not judged, for they are the machine's too.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests.cache import cache_dir
from tests.debian import bare_root

PROJECT = Path(__file__).parent.parent
# What CONTRIBUTING.md asks for, and how a minimal Debian reaches its archive and PyPI.
PACKAGES = ("apt", "ca-certificates", "git", "make", "python3")
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"

# Runs the rest in the root $1, with the changes in $2 and the clone in $3.
IN_ROOT = r"""
set -euo pipefail
root=$1 scratch=$2 clone=$3; shift 3
mount -t overlay overlay \
    -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" "$scratch/root"
cd "$scratch/root"
mkdir -p root/kernel-delay
mount --bind "$clone" root/kernel-delay
for directory in proc sys dev; do mount --rbind "/$directory" "$directory"; done
mount -t tmpfs tmpfs tmp
cp /etc/resolv.conf etc/
cp "/$CERTIFICATES" "$CERTIFICATES"
exec chroot . sh -c 'cd /root/kernel-delay && exec "$@"' in-root "$@"
"""

TEST = (".venv/bin/python", "-m", "pytest", "-q", "tests/unit/test_histogram.py")
REPORT = (".venv/bin/kernel-delay", "--pid", "1", "--sample-time", "0.1")
PYTHON = "src/kernel_delay/analysis/histogram.py"
BPF = "src/kernel_delay/bpf/round.h"


class Newcomer:
    """A fresh root of a suite with `packages`, and a clone in it; `scratch` is on a disk."""

    def __init__(
        self, scratch: Path, suite: str = "bookworm", packages: Sequence[str] = PACKAGES
    ) -> None:
        self._root = bare_root(suite, *packages)
        self._scratch = scratch
        self.clone = scratch / "clone"
        for name in ("upper", "work", "root"):
            (scratch / name).mkdir()
        subprocess.run(["git", "clone", "--quiet", PROJECT, self.clone], check=True)

    def run(self, what: str, *command: str, output: IO[bytes] | None = None) -> int:
        """Run a command in the clone, print how long it took, and return its exit status.

        What it prints goes to `output`, or to the standard error.
        """
        folders = [str(path) for path in (self._root, self._scratch, self.clone)]
        begun = time.monotonic()
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", IN_ROOT, "newcomer", *folders, *command],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output or sys.stderr,
            stderr=output,
            check=False,
        )
        print(f"{time.monotonic() - begun:7.1f} s  {what}", flush=True)
        return done.returncode

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace `old`, which the file has, once."""
        path = self.clone / name
        text = path.read_text()
        assert old in text, name
        path.write_text(text.replace(old, new, 1))


def _environment() -> dict[str, str]:
    """A login's, and this machine's way to PyPI."""
    ways = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return ways | {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "DEBIAN_FRONTEND": "noninteractive",
        "CERTIFICATES": CERTIFICATES,
        "PIP_CERT": f"/{CERTIFICATES}",
    }


def main() -> int:
    """Exit with 1 unless each step ends as a newcomer expects."""
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="newcomer-") as scratch:
        newcomer = Newcomer(Path(scratch))
        outcomes = [newcomer.run("the first build: make dev", "make", "dev") == 0]
        newcomer.edit(PYTHON, "return ", "return None and ")
        outcomes.append(newcomer.run("one test, after an edit that breaks it", *TEST) == 1)
        newcomer.edit(PYTHON, "return None and ", "return ")
        outcomes.append(newcomer.run("one test, after that is undone", *TEST) == 0)
        newcomer.edit(BPF, "#", "/* read */\n#")
        outcomes.append(newcomer.run("a report, after an edit of BPF C", *REPORT) == 0)
    if not all(outcomes):
        print("newcomer: a step did not end as it should: see above", file=sys.stderr)
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
