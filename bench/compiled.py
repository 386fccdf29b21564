"""The bench's own C programs and BPF objects, compiled into a folder."""

import subprocess
import sysconfig
from pathlib import Path

SOURCES = Path(__file__).parent / "loads"


def program(name: str, folder: Path) -> Path:
    """Compile loads/`name`.c; return the program."""
    output = folder / name
    source = SOURCES / f"{name}.c"
    subprocess.run(["cc", "-O2", "-Wall", "-pthread", "-o", output, source], check=True)
    return output


def bpf_object(name: str, folder: Path, *definitions: str) -> Path:
    """Compile loads/`name`.bpf.c with these macros defined; return the object."""
    output = folder / f"{'-'.join([name, *definitions])}.bpf.o"
    # Where Debian keeps <asm/types.h>, which <linux/types.h> needs.
    include = f"/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    options = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-idirafter", include]
    options += [f"-D{definition}" for definition in definitions]
    subprocess.run(["clang", *options, "-c", SOURCES / f"{name}.bpf.c", "-o", output], check=True)
    return output
