"""Boots Debian's kernel for arm64 in QEMU, with a folder's files in memory and nothing else."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.kernels.guest import ONE_THREAD
from tests.kernels.images import Kernel, fetch

KERNELS = {
    suite: Kernel(
        f"Debian {number}",
        open_vswitch=suite,
        suite=suite,
        package="linux-image-arm64",
        architecture="arm64",
    )
    for number, suite in ((12, "bookworm"), (13, "trixie"))
}

# What it says with this in front is a result: a name, and what there is to say.
RESULT = "RESULT "

# Pointers are signed as on a real CPU (QEMU's own way, as Arm's costs an emulator too much).
MACHINE = ["-machine", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "2", "-m", "2G"]
NOTHING_ELSE = ["-nodefaults", "-display", "none", "-no-reboot"]
# Nothing of the kernel's between the results; a first process that ends ends the machine.
SILENT = "console=ttyAMA0 quiet loglevel=0 panic=-1"


def run(
    kernel: Kernel, root: Path, first_process: list[str], console: Path, limit_s: float
) -> dict[str, Any]:
    """Boot it with these files and this first process; the results by their names.

    `console` has all that was printed.
    """
    files = console.with_suffix(".cpio")
    _pack(root, files)
    program, *arguments = first_process
    command = ["qemu-system-aarch64", *MACHINE, *NOTHING_ELSE, *ONE_THREAD.split()]
    command += ["-kernel", str(fetch(kernel).vmlinuz), "-initrd", str(files)]
    command += ["-append", f"{SILENT} rdinit={program} -- {' '.join(arguments)}"]
    command += ["-serial", f"file:{console}"]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=limit_s)
    lines = console.read_text(errors="replace").splitlines()
    return dict(json.loads(line.removeprefix(RESULT)) for line in lines if line.startswith(RESULT))


def _pack(root: Path, archive: Path) -> None:
    """As the kernel unpacks them into its first file system (initramfs-buffer-format.rst, 6.1)."""
    with open(archive, "wb") as file:
        names = subprocess.run(["find", "."], cwd=root, stdout=subprocess.PIPE, check=True).stdout
        pack = ["busybox", "cpio", "-o", "-H", "newc"]
        subprocess.run(pack, cwd=root, input=names, stdout=file, stderr=subprocess.PIPE, check=True)
