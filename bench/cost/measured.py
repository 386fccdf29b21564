"""All figures, in groups by what they depend on beside the sources."""

import os
import platform
import shutil
import subprocess
from pathlib import Path

import kernel_delay
from bench.cost.collecting import collector_calls
from bench.cost.live import top_calls
from bench.cost.programs import object_bytes, verified_figures
from bench.cost.reports import report_calls
from bench.cost.starts import imported_modules, readings
from bench.cost.table import Table
from kernel_delay.host.system_state import cpu_numbers


def measured(folder: Path, *, programs_only: bool) -> Table:
    """Measure all, with files in that folder, or what the kernel's verifier takes alone.

    An editable build looks for what is to be compiled first: what it reads and imports at a start
    is left out.
    """
    # Without what a build appends: each rebuild would leave all figures without comparison.
    version = os.uname().release.partition("-")[0]
    kernel = f"Linux {version}, {cpu_numbers()} CPUs"
    python = f"Python {'.'.join(platform.python_version_tuple()[:2])}"
    programs = {f"{kernel}, {_compiler()}": verified_figures()}
    if programs_only:
        return programs
    table = {
        **programs,
        f"{platform.machine()}, {_compiler()}": object_bytes(),
        f"{python}, reports": collector_calls() | top_calls() | report_calls(folder),
    }
    if not is_editable():
        table[f"{python}, imports"] = imported_modules(folder)
        table[f"{kernel}, {python}"] = readings(folder)
    return table


def is_editable() -> bool:
    """Whether the package is the source tree itself."""
    return (Path(str(kernel_delay.__file__)).parent / "meson.build").exists()


def _compiler() -> str:
    """Return which clang the programs are compiled by here: others make other instructions."""
    clang = shutil.which("clang")
    if clang is None:
        return "no clang"
    version = subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=True)
    return f"clang {version.stdout.partition('.')[0]}"
