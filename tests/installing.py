"""python -m tests.installing: README's commands to install, in a fresh Debian 12 and 13.

Each root has Python and git alone. First `pip install .` is tried there: it has to say in one line
what is missing, by the packages that README names. Then README's commands are run as they stand.
"""

import re
import sys
import tempfile
from pathlib import Path

from tests.cache import cache_dir
from tests.newcomer import PROJECT, Newcomer

SUITES = ("bookworm", "trixie")
PACKAGES = ("apt", "ca-certificates", "git", "python3", "python3-venv")

# What a build without any of them has to name.
MISSING = {"gcc", "libc6-dev", "clang", "llvm", "pkgconf"}

TRY = "python3 -m venv /tmp/venv && /tmp/venv/bin/pip install ."


def commands() -> str:
    """README's, below `## Install`, as a script."""
    section = (PROJECT / "README.md").read_text().partition("\n## Install\n")[2]
    block = re.search(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert block is not None, "README.md has no commands to install"
    return re.sub("^    ", "", block[0], flags=re.MULTILINE)


def says_what_is_missing(newcomer: Newcomer, script: str) -> bool:
    """Whether a build without the tools ends with a line that names each package."""
    with tempfile.TemporaryFile() as output:
        status = newcomer.run("pip install . without the tools", "sh", "-c", TRY, output=output)
        output.seek(0)
        said = output.read().decode(errors="replace")
    lines = [line for line in said.splitlines() if "install what is missing" in line]
    named = {word for line in lines for word in re.findall(r"[\w-]+", line)}
    if status == 0 or len(lines) != 1 or not named >= MISSING:
        print(f"{said}\ninstalling: no line says what is missing", file=sys.stderr)
        return False
    print(f"           {lines[0].strip()}", flush=True)
    return set(re.findall(r"[\w-]+", script)) >= MISSING


def main() -> int:
    """Exit with 1 unless README's commands install the tool, and a build says what it lacks."""
    script = commands()
    outcomes = []
    for suite in SUITES:
        print(suite, flush=True)
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="installing-") as scratch:
            newcomer = Newcomer(Path(scratch), suite, PACKAGES)
            outcomes.append(says_what_is_missing(newcomer, script))
            # As someone who was asked would: apt reads its answer from nobody here.
            answered = script.replace("apt-get install", "apt-get install --yes")
            outcomes.append(newcomer.run("README's commands", "sh", "-ec", answered) == 0)
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
