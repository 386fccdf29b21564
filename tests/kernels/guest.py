"""Boots a kernel in QEMU, on this machine's own files, and runs a command there."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from tests.cache import cache_dir
from tests.kernels.images import Image
from tests.workload import compile_workload

GUEST_SCRIPT = Path(__file__).with_name("guest.sh")
# Whoever is not up by then hangs. Under KVM a guest takes about 3 s; under TCG on 2 busy cores 30.
KVM_BOOT_LIMIT_S = 100
TCG_BOOT_LIMIT_S = 300

CONSOLE_TAIL_LINES = 12
CONSOLE_TAIL_BYTES = 16384
# Colours and cursors (ECMA-48), and the other control characters.
CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

# With a thread for each CPU, what one CPU writes over code that another one just translates is
# lost (QEMU 7.2): the kernel, which changes its code for each tracepoint that is switched on or
# off, then dies of the breakpoint it put there meanwhile ("Oops: int3").
ONE_THREAD = "-accel tcg,thread=single"


# What an emulator pays for most: page tables apart, and a TLB emptied at each system call, as on a
# CPU that has Meltdown; a fifth level of page tables; libc's functions for AVX.
CHEAP = ("--append=mitigations=off", "--qemu-opts=-cpu max,-la57,-avx,-avx2")


class GuestError(Exception):
    """The guest did not boot, hung, died before its command ended, or was stopped."""


@dataclass(frozen=True)
class Guest:
    """A guest to be booted: which kernel, with KVM or without, and where its results go.

    `results` is the one folder the guest may write to on the host. The console's
    log is kept there. Setting `stop` ends the guest.
    """

    image: Image
    kvm: bool
    results: Path
    stop: Event = field(default_factory=Event)
    cpus: int = 2

    @property
    def python(self) -> str:
        """The Python that runs the tests there."""
        return sys.executable

    @property
    def console(self) -> Path:
        """The log of all that the guest's kernel and the command printed."""
        return self.results / "console.log"

    @property
    def outcomes(self) -> Path:
        """Where the command leaves what its tests came to."""
        return self.results / "outcomes"

    def keep(self, number: int) -> Path:
        """Keep the results of a guest that ended too soon beside the next one's; its outcomes."""
        kept = self.results.with_name(f"{self.results.name}-ended-{number}")
        shutil.rmtree(kept, ignore_errors=True)
        self.results.rename(kept)
        return kept / self.outcomes.name

    def last_words(self) -> list[str]:
        """The last lines on the console that hold something, for one who asks why it failed."""
        try:
            text = self.console.read_bytes()[-CONSOLE_TAIL_BYTES:].decode(errors="replace")
        except OSError:
            return []
        lines = (CONTROL.sub("", line).rstrip() for line in text.splitlines())
        return [line for line in lines if line][-CONSOLE_TAIL_LINES:]

    def run(self, command: list[str], silence_s: float) -> int:
        """Boot, run `command` as root, shut down; the command's exit status.

        Raises GuestError where the guest is not up in time, or has printed nothing for so long.
        """
        shutil.rmtree(self.results, ignore_errors=True)
        self.results.mkdir(parents=True)
        # Not on the kernel's command line, which ends at 2 KiB.
        (self.results / "command").write_text(shlex.join(command))
        with open(self.console, "wb") as console:
            qemu = subprocess.Popen(
                self._boot_command(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=_with_virtme_ng_on_the_path(),
                start_new_session=True,
            )
        try:
            self._wait(qemu, silence_s)
        finally:
            if qemu.poll() is None:
                os.killpg(qemu.pid, signal.SIGKILL)
                qemu.wait()
        return self._status()

    def _wait(self, qemu: subprocess.Popen[bytes], silence_s: float) -> None:
        boot_limit_s = KVM_BOOT_LIMIT_S if self.kvm else TCG_BOOT_LIMIT_S
        start = printed = time.monotonic()
        size = 0
        while qemu.poll() is None:
            now = time.monotonic()
            if now - start > boot_limit_s and not (self.results / "booted").exists():
                raise GuestError(f"not up after {boot_limit_s} s, see {self.console}")
            if (seen := self.console.stat().st_size) != size:
                size, printed = seen, now
            if now - printed > silence_s:
                raise GuestError(f"hung: killed, silent for {silence_s:.0f} s, see {self.console}")
            if self.stop.wait(0.1):
                raise GuestError("interrupted")

    def _status(self) -> int:
        try:
            return int((self.results / "status").read_text())
        except (OSError, ValueError):
            raise GuestError(f"died before its command ended, see {self.console}") from None

    def _boot_command(self) -> list[str]:
        cache_home = str(cache_dir().parent)
        script = [str(GUEST_SCRIPT), str(self.results), cache_home]
        cached_host_files = (
            "-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap "
            "-device virtio-9p-pci,fsdev=host,mount_tag=host"
        )
        return [
            "vng",
            *([] if self.kvm else ["--disable-kvm"]),
            "--disable-microvm",  # it has no PCI bus for the second device
            "--force-9p",
            "--verbose",  # without it and without a terminal, the guest waits for udev
            f"--cpus={self.cpus}",
            "--memory=2G",
            # QEMU gives all CPUs one time stamp counter. A guest that, on a busy host, takes
            # them for several asks a device for the time, and the vDSO can't.
            "--append=tsc=reliable",
            # Where the timer's first interrupts come late, on a busy host, it panics at boot.
            "--append=no_timer_check",
            *([] if self.kvm else (*CHEAP, *counter_frequency())),
            f"--rwdir={self.results}",
            f"--qemu-opts={cached_host_files}",
            *([] if self.kvm else [f"--qemu-opts={ONE_THREAD}"]),
            f"--run={self.image.vmlinuz}",
            "--",
            shlex.join(script),
        ]


def counter_frequency() -> list[str]:
    """Tell an emulated guest how fast its time stamp counter is, which is the host's.

    It measures that against a timer of QEMU's (arch/x86/kernel/tsc.c), and where the host has no
    CPU for QEMU meanwhile, it takes 2,596 MHz for 316: its clock then runs eight times too fast.
    The option is there from 5.13 on (commit bd35c77e32e4); older kernels do without.
    """
    if os.uname().machine != "x86_64":
        return []
    program = compile_workload("tsc_khz")
    khz = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [f"--append=tsc_early_khz={int(khz)}"]


def kvm_boots(image: Image, results: Path) -> bool:
    """Whether a guest really boots under KVM: /dev/kvm may be there and yet every guest hang.

    No other architecture's does. The answer is kept until the machine boots again.
    """
    if image.kernel.architecture or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    answer = cache_dir() / "kvm-boots"
    if answer.exists() and answer.read_text().split()[0] == boot_id:
        return answer.read_text().split()[1] == "yes"
    try:
        Guest(image, kvm=True, results=results).run(["true"], KVM_BOOT_LIMIT_S * 2)
        boots = True
    except GuestError:
        boots = False
    answer.write_text(f"{boot_id} {'yes' if boots else 'no'}\n")
    return boots


def _with_virtme_ng_on_the_path() -> dict[str, str]:
    """The environment, with vng and the programs it starts found beside this Python."""
    scripts = sysconfig.get_path("scripts")
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
