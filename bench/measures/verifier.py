"""What the kernel's verifier takes to load the programs: on this kernel and in guests of others."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.figures import Absence, Figure, Measured, Values
from bench.measures.measure import Measure, Setting
from bench.rounds import progress
from bench.verifying import Loading
from tests.debian import DebianError
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import Kernel, MissingImageError, fetch, own_kernels

HERE = "this kernel"
LOAD = "time to load"
# The smaller of 5.14's two limits is 8,192 paths that are still to be looked at.
LIMIT_OF_JUMPS = 8192
_LIMIT_S = 600.0
_NAMED_SETS = ("default", "watch --metrics")


class Verifier(Measure):
    """capture.bpf.o, loaded with the options of several commands."""

    name = "verifier"
    title = "What the kernel's verifier takes"
    method = (
        "Instructions that the verifier processes: of all programs of a set of options, and of each"
        " program of the smallest and the largest set. One program may have 1,000,000. Then the"
        " conditional jumps that it processes in one program, the most. On 5.14 at most 8,192 may"
        " wait to be looked at. The time to load is without the verifier's log. Guests are"
        " emulated."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Load them here, then in a guest of each kernel of the tests that can load them."""
        values = Values()
        absent: list[Absence] = []
        file = setting.folder / "verified.json"
        subprocess.run([sys.executable, "-m", "bench.verifying", file], check=True)
        _note(values, HERE, file)
        for kernel in own_kernels():
            if not kernel.tests:
                progress(kernel.name)
                try:
                    release, file = _in_guest(kernel, setting.folder)
                except (DebianError, GuestError, MissingImageError) as error:
                    absent.append(Absence(kernel.name, str(error)))
                else:
                    _note(values, f"{kernel.name}: {release}", file)
        return values.figures(), absent

    def remarks(self, measured: Measured) -> Iterator[str]:
        """Yield how far the dearest program is from the limit."""
        jumps = [figure.median for figure in measured.figures if figure.unit == "jumps"]
        if jumps:
            most = max(jumps)
            yield (
                f"At most {most:,.0f} jumps are {most / LIMIT_OF_JUMPS:.0%} of 8,192. Not all of"
                " them wait at the same time."
            )


def _in_guest(kernel: Kernel, folder: Path) -> tuple[str, Path]:
    """Boot it and load them there; its release, and the file with the figures."""
    image = fetch(kernel)
    results = folder / image.release
    file = results / "verified.json"
    guest = Guest(image, kvm_boots(image, folder / "kvm"), results)
    if guest.run([sys.executable, "-m", "bench.verifying", str(file)], _LIMIT_S):
        raise GuestError("; ".join(guest.last_words()))
    return image.release, file


def _note(values: Values, kernel: str, file: Path) -> None:
    for name, loading in msgspec.json.decode(file.read_bytes(), type=dict[str, Loading]).items():
        verified = loading.verified
        instructions = [program.instructions for program in verified.values()]
        values.note(f"{name}: all programs", kernel, "", sum(instructions))
        values.note(f"{name}: largest program", kernel, "", max(instructions))
        jumps = max(program.jumps for program in verified.values())
        values.note(f"{name}: most jumps", kernel, "jumps", jumps)
        for each_ms in loading.load_ms:
            values.note(f"{name}: {LOAD}", kernel, "ms", each_ms)
        if name in _NAMED_SETS:
            for program, processed in verified.items():
                values.note(f"{name}: {program}", kernel, "", processed.instructions)
