"""What the kernel's verifier takes to load the programs: on this kernel and in guests of others."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bench import tables
from bench.figures import Absence, Figure, Measured, Values
from bench.measures.measure import Measure, Setting
from bench.rounds import progress
from bench.verifying import Loading
from tests.debian import DebianError
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import Kernel, MissingImageError, fetch, own_kernels

HERE = "this kernel"
ALL = "all programs"
LARGEST = "largest program"
JUMPS = "most jumps"
LOAD = "time to load"
# Of one program: these follow its name.
PROGRAM = ".bpf.o, "
JUMPS_OF, TIME_OF = ", jumps", ", time"

LIMIT_OF_INSTRUCTIONS = 1_000_000
# The smaller of 5.14's two limits is 8,192 paths that are still to be looked at.
LIMIT_OF_JUMPS = 8192
_LIMIT_S = 900.0


class Verifier(Measure):
    """Each object, loaded with the options of several commands."""

    name = "verifier"
    title = "What the kernel's verifier takes"
    method = (
        "Instructions that the verifier processes of all programs of a set of options, and the"
        " time to load them, without the verifier's log. Then, for each object, its largest program"
        " on any kernel. One program may have 1,000,000 instructions. On 5.14 at most 8,192"
        " conditional jumps may wait to be looked at: the figure is those that are processed."
        " [Each program](verifier.md) is on a page of its own. Guests are emulated."
    )

    def take(self, setting: Setting) -> tuple[list[Figure], list[Absence]]:
        """Load them here, then in a guest of each kernel of the tests that can load them."""
        figures: list[Figure] = []
        absent: list[Absence] = []

        def take(kernel: str, file: Path) -> None:
            of_kernel, refused = read_figures(kernel, file)
            figures.extend(of_kernel)
            absent.extend(refused)

        if not setting.kernels or HERE in setting.kernels:
            file = setting.folder / "verified.json"
            subprocess.run([sys.executable, "-m", "bench.verifying", file], check=True)
            take(HERE, file)
        for kernel in guests():
            if not setting.kernels or kernel.name in setting.kernels:
                progress(kernel.name)
                try:
                    release, file = _in_guest(kernel, setting.folder)
                except (DebianError, GuestError, MissingImageError) as error:
                    absent.append(Absence(kernel.name, str(error)))
                else:
                    take(f"{kernel.name}: {release}", file)
        return figures, absent

    def tables(self, measured: Measured) -> Iterator[str]:
        """Yield a table of the sets of options, and one of the objects."""
        of_sets = tuple(
            figure for figure in measured.figures if figure.case.endswith((f": {ALL}", LOAD))
        )
        absent = tuple(each for each in measured.absent if PROGRAM not in each.reason)
        yield from tables.of(msgspec.structs.replace(measured, figures=of_sets, absent=absent))
        yield ""
        yield tables.row(["object", "programs", "largest", LARGEST, "jumps", JUMPS])
        yield tables.row(["---", "---:", "---:", "---", "---:", "---"])
        for name, programs in by_object(measured).items():
            yield tables.row([f"{name}.bpf.o", str(len(programs)), *_largest(measured, programs)])

    def remarks(self, measured: Measured) -> Iterator[str]:
        """Yield how far the dearest program is from the limit."""
        if by_object(measured):
            instructions, jumps = most_instructions(measured), most_jumps(measured)
            yield (
                f"One program takes at most {instructions / LIMIT_OF_INSTRUCTIONS:.1%} of 1,000,000"
                f" instructions, and {jumps / LIMIT_OF_JUMPS:.0%} of 8,192 jumps. Not all of these"
                " wait at the same time."
            )


def guests() -> Iterator[Kernel]:
    """Yield the kernels that can load the programs, and are booted for that."""
    return (kernel for kernel in own_kernels() if not kernel.tests)


def by_object(measured: Measured) -> Mapping[str, list[str]]:
    """Return the cases of the instructions of each object's programs, on all kernels."""
    found: dict[str, list[str]] = {}
    for case in dict.fromkeys(figure.case for figure in measured.figures):
        name, is_program, _ = case.partition(PROGRAM)
        if is_program and not case.endswith((JUMPS_OF, TIME_OF)):
            found.setdefault(name, []).append(case)
    return found


def program_name(case: str) -> str:
    """Return the program whose instructions the case has."""
    return case.partition(PROGRAM)[2]


def peak(measured: Measured, cases: list[str]) -> Figure:
    """Return the largest figure of these cases, on any kernel."""
    return max((each for each in measured.figures if each.case in cases), key=lambda at: at.median)


def most_instructions(measured: Measured) -> float:
    """Return those of the program that takes most, of all objects on all kernels."""
    cases = {case for of_object in by_object(measured).values() for case in of_object}
    return max((each.median for each in measured.figures if each.case in cases), default=0)


def most_jumps(measured: Measured) -> float:
    """Return the most of one program, of all objects on all kernels."""
    return max((each.median for each in measured.figures if each.unit == "jumps"), default=0)


def _largest(measured: Measured, cases: list[str]) -> Iterator[str]:
    for suffix, limit in (("", LIMIT_OF_INSTRUCTIONS), (JUMPS_OF, LIMIT_OF_JUMPS)):
        names = [case + suffix for case in cases]
        if not any(figure.case in names for figure in measured.figures):
            yield from ("", "")
            continue
        figure = peak(measured, names)
        yield f"{figure.median:,.0f} ({100 * figure.median / limit:.2g} %)"
        yield f"{program_name(figure.case).removesuffix(suffix)}, {figure.peer}"


def _in_guest(kernel: Kernel, folder: Path) -> tuple[str, Path]:
    """Boot it and load them there; its release, and the file with the figures."""
    image = fetch(kernel)
    results = folder / image.release
    file = results / "verified.json"
    guest = Guest(image, kvm_boots(image, folder / "kvm"), results)
    if guest.run([sys.executable, "-m", "bench.verifying", str(file)], _LIMIT_S):
        raise GuestError("; ".join(guest.last_words()))
    return image.release, file


def read_figures(kernel: str, file: Path) -> tuple[list[Figure], list[Absence]]:
    """Return a kernel's figures, and which programs it refuses, and why."""
    values = Values()
    largest: dict[str, tuple[float, ...]] = {}
    refused: dict[str, Absence] = {}
    for name, loading in msgspec.json.decode(file.read_bytes(), type=dict[str, Loading]).items():
        _note_set(values, kernel, name, loading)
        for program, processed in loading.verified.items():
            case = f"{loading.object}{PROGRAM}{program}"
            taken = (*map(float, processed), loading.verify_us[program] / 1000)
            largest[case] = tuple(map(max, largest.get(case, taken), taken))
        for program, reason in loading.refused.items():
            case = f"{loading.object}{PROGRAM}{program}"
            refused[case] = Absence(kernel, f"{case}: {reason}")
    for case, (instructions, jumps, verify_ms) in largest.items():
        values.note(case, kernel, "", instructions)
        values.note(case + JUMPS_OF, kernel, "jumps", jumps)
        values.note(case + TIME_OF, kernel, "ms", verify_ms)
    return values.figures(), list(refused.values())


def _note_set(values: Values, kernel: str, name: str, loading: Loading) -> None:
    if not loading.verified:
        return
    instructions, jumps = zip(*loading.verified.values(), strict=True)
    values.note(f"{name}: {ALL}", kernel, "", sum(instructions))
    values.note(f"{name}: {LARGEST}", kernel, "", max(instructions))
    values.note(f"{name}: {JUMPS}", kernel, "jumps", max(jumps))
    for each_ms in loading.load_ms:
        values.note(f"{name}: {LOAD}", kernel, "ms", each_ms)
