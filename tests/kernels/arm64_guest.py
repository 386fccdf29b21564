"""Boots an arm64 kernel in QEMU, on a Debian of that architecture, and runs a command there."""

import subprocess
from pathlib import Path

from tests.cache import cache_dir
from tests.kernels import arm64_root
from tests.kernels.guest import ONE_THREAD, Guest
from tests.kernels.images import REPOSITORY

FIRST_SCRIPT = Path(__file__).with_name("arm64.sh")

# Pointers are signed as on a real CPU (QEMU's own way, as Arm's costs an emulator too much).
MACHINE = ["-machine", "virt", "-cpu", "max,pauth-impdef=on"]
NOTHING_ELSE = ["-nodefaults", "-display", "none", "-no-reboot"]

# The first process of all, which loads the modules, and goes on with the disk.
INIT = """\
#!/bin/busybox sh
for folder in proc sys dev; do /bin/busybox mkdir -p /$folder; done
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*.ko; do [ ! -e $module ] || /bin/busybox insmod $module; done
/bin/busybox mkdir -p /root
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox cp /{script} /root/{script}
exec /bin/busybox switch_root /root /bin/bash /{script} {arguments}
"""


class Arm64Guest(Guest):
    """A guest of another architecture: it has a disk of its own, and this machine's folders."""

    @property
    def python(self) -> str:
        """The Python that runs the tests there: the disk's."""
        return "/usr/bin/python3"

    def _boot_command(self) -> list[str]:
        # Each has its own, as no lock of one keeps another one out.
        cache = cache_dir() / "arm64" / self.image.release
        cache.mkdir(parents=True, exist_ok=True)
        arm64_root.install_wheel(self.results / "wheel")
        shared = {
            "project": REPOSITORY,
            "results": self.results,
            "cache": cache,
            "ovs": cache_dir() / "ovs",
        }
        if self.image.modules is not None:
            shared["modules"] = self.image.modules / "lib" / "modules"
        arguments = " ".join(str(folder) for folder in shared.values())
        files = self.results / "first"
        arm64_root.copy_busybox(files / "bin" / "busybox")
        arm64_root.copy_first_modules(self.image, files / "modules")
        init = files / "init"
        init.write_text(INIT.format(script=FIRST_SCRIPT.name, arguments=arguments))
        init.chmod(0o755)
        (files / FIRST_SCRIPT.name).write_bytes(FIRST_SCRIPT.read_bytes())
        pack_files(files, self.results / "first.cpio")
        disk = f"file={arm64_root.disk()},format=raw,if=none,id=disk,snapshot=on"
        return [
            *("qemu-system-aarch64", *MACHINE, *NOTHING_ELSE, *ONE_THREAD.split()),
            *("-smp", str(self.cpus), "-m", "3G", "-serial", "stdio"),
            *("-kernel", str(self.image.vmlinuz), "-initrd", str(self.results / "first.cpio")),
            *("-append", "console=ttyAMA0 quiet loglevel=3 panic=-1"),
            *("-drive", disk, "-device", "virtio-blk-pci,drive=disk"),
            *(word for tag, folder in shared.items() for word in _share(tag, folder)),
        ]


def pack_files(root: Path, archive: Path) -> None:
    """As the kernel unpacks them into its first file system (initramfs-buffer-format.rst, 6.1)."""
    with open(archive, "wb") as file:
        names = subprocess.run(["find", "."], cwd=root, stdout=subprocess.PIPE, check=True).stdout
        pack = ["busybox", "cpio", "-o", "-H", "newc"]
        subprocess.run(pack, cwd=root, input=names, stdout=file, stderr=subprocess.PIPE, check=True)


def _share(tag: str, folder: Path) -> list[str]:
    """The options of QEMU with which a guest mounts the folder by this tag."""
    readonly = "off" if tag in ("results", "cache") else "on"
    options = f"local,id={tag},path={folder},security_model=none,multidevs=remap"
    return [
        *("-fsdev", f"{options},readonly={readonly}"),
        *("-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
    ]
