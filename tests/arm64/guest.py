"""Boots Debian's kernel for arm64 in QEMU, with a folder's files in memory and nothing else."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.kernels.arm64_guest import MACHINE, NOTHING_ELSE, pack_files
from tests.kernels.guest import ONE_THREAD
from tests.kernels.images import Kernel, fetch, listed_kernels

KERNELS = {kernel.suite: kernel for kernel in listed_kernels() if kernel.architecture == "arm64"}

# What it says with this in front is a result: a name, and what there is to say.
RESULT = "RESULT "

# Nothing of the kernel's between the results; a first process that ends ends the machine.
SILENT = "console=ttyAMA0 quiet loglevel=0 panic=-1"


def run(
    kernel: Kernel, root: Path, first_process: list[str], console: Path, limit_s: float
) -> dict[str, Any]:
    """Boot it with these files and this first process; the results by their names.

    `console` has all that was printed.
    """
    files = console.with_suffix(".cpio")
    pack_files(root, files)
    program, *arguments = first_process
    command = ["qemu-system-aarch64", *MACHINE, *NOTHING_ELSE, *ONE_THREAD.split()]
    command += ["-smp", "2", "-m", "2G"]
    command += ["-kernel", str(fetch(kernel).vmlinuz), "-initrd", str(files)]
    command += ["-append", f"{SILENT} rdinit={program} -- {' '.join(arguments)}"]
    command += ["-serial", f"file:{console}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=limit_s)
    lines = console.read_text(errors="replace").splitlines()
    return dict(json.loads(line.removeprefix(RESULT)) for line in lines if line.startswith(RESULT))
