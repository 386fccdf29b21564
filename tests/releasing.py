"""python -m tests.releasing DIST: what `make release` has left in DIST, in fresh Debian 12 and 13.

Each way to install it is tried in a root of its own, and has to give a report whose truth is known:
a process that is stopped. Prints the seconds of each step; they are read, not
judged. The deb and the rpm have to hold the same commands, pages and units, and the deb
has to leave nothing when it is removed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cache import cache_dir
from tests.installing import PACKAGES, SUITES
from tests.newcomer import Newcomer

# What a package has outside its own folder, but for documentation and what it is called there.
SHARED = {
    "bin/kernel-delay",
    "bin/kernel_delay",
    "lib/systemd/system/kernel-delay-watch.service",
    "lib/systemd/system/kernel-delay-watch@.service",
    "share/fish/vendor_completions.d/kernel-delay.fish",
}

REPORT = """
sh -c 'while :; do :; done' & pid=$!
kill -STOP $pid
"$1" -p $pid --summary >/tmp/report
kill -KILL $pid
head -n 8 /tmp/report
grep -q 'was stopped for' /tmp/report
"""

FIRST_REPORT = ("sh", "-ec", REPORT, "report")

DEB = "apt-get update && apt-get install --yes --no-install-recommends ./dist/*_amd64.deb"
AFTER_DEB = """
test "$(kernel-delay --version)" = "kernel-delay $1"
test -e /usr/lib/kernel-delay/lib/python3/site-packages/rich/__pycache__
apt-get remove --yes kernel-delay
test ! -e /usr/lib/kernel-delay
test ! -L /usr/bin/kernel-delay
"""
PIP = "python3 -m venv /opt/kernel-delay && /opt/kernel-delay/bin/pip install ./dist/*x86_64.whl"
PIPX = """
apt-get update && apt-get install --yes --no-install-recommends pipx
pipx install ./dist/*x86_64.whl
"""
# As rpm's own scripts would: the link to the interpreter is not in the package.
RPM = """
cp -a rpm/usr/. /usr/
ln -sfn /usr/bin/python3 /usr/lib/kernel-delay/bin/python3
"""


def files(listing: str) -> set[str]:
    """Those of a package outside its own folder, below /usr, without documentation."""
    names = {re.sub(r"^\.?/usr/", "", line) for line in listing.splitlines()}
    apart = ("lib/kernel-delay/", "share/doc/", "share/licenses/")
    return {name for name in names if not name.startswith(apart) and not name.endswith("/")}


def output(*command: object) -> str:
    """What the command prints."""
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def packages_differ(deb: Path, rpm: Path) -> Iterator[str]:
    """How the lists of files are not as they should be."""
    listing = output("dpkg-deb", "--contents", deb).splitlines()
    of_deb = files("\n".join(line.split(None, 5)[5].partition(" -> ")[0] for line in listing))
    of_rpm = files(output("rpm", "-qlp", rpm))
    for name, found in (("deb", of_deb), ("rpm", of_rpm)):
        print(f"{name}: {len(found)} files outside /usr/lib/kernel-delay", flush=True)
        if missing := SHARED - found:
            yield f"the {name} lacks {', '.join(sorted(missing))}"
    pages = [{each for each in found if "/man1/" in each} for found in (of_deb, of_rpm)]
    if pages[0] != pages[1] or len(pages[0]) < 10:
        yield f"the pages for man are not the same: {sorted(pages[0] ^ pages[1])}"


def ways(version: str) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Each way to install: its name, and its commands up to the first report and after it."""
    yield (
        "deb",
        [
            ("sh", "-ec", DEB),
            (*FIRST_REPORT, "kernel-delay"),
            ("sh", "-ec", AFTER_DEB, "after", version),
        ],
    )
    yield "pip", [("sh", "-ec", PIP), (*FIRST_REPORT, "/opt/kernel-delay/bin/kernel-delay")]
    yield "pipx", [("sh", "-ec", PIPX), (*FIRST_REPORT, "/root/.local/bin/kernel-delay")]
    yield "rpm, unpacked", [("sh", "-ec", RPM), (*FIRST_REPORT, "kernel-delay")]


def main() -> int:
    """Exit with 1 unless each way installs it, and reports what is true."""
    dist = Path(sys.argv[1]).resolve()
    (deb,) = dist.glob("*_amd64.deb")
    (rpm,) = dist.glob("*.x86_64.rpm")
    (wheel,) = dist.glob("*x86_64.whl")
    faults = list(packages_differ(deb, rpm))
    for suite in SUITES:
        for name, commands in ways(wheel.name.split("-")[1]):
            print(f"{suite}, {name}", flush=True)
            with tempfile.TemporaryDirectory(dir=cache_dir(), prefix="releasing-") as scratch:
                newcomer = Newcomer(Path(scratch), suite, PACKAGES)
                shutil.copytree(dist, newcomer.clone / "dist")
                unpacked = newcomer.clone / "rpm"
                unpacked.mkdir()
                archive = subprocess.run(["rpm2cpio", rpm], check=True, stdout=subprocess.PIPE)
                unpack = ["cpio", "--extract", "--make-directories", "--quiet"]
                subprocess.run(unpack, cwd=unpacked, input=archive.stdout, check=True)
                for what, command in zip(
                    ("installed", "the first report", "removed"), commands, strict=False
                ):
                    if newcomer.run(what, *command) != 0:
                        faults.append(f"{suite}, {name}: not {what}")
                        break
    for fault in faults:
        print(f"releasing: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
