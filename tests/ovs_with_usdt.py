"""A real Open vSwitch with USDT probes, built once: python -m tests.ovs_with_usdt prints where.

Debian's own ovs-vswitchd has no probes and no symbols. This one is built from
the source package of Debian 13 (Debian 12's lacks the revalidator's probes), or of
the suite given, as a distribution would build it: -O2, no frame pointers, with debug
information.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cache import built, cache_dir, locked
from tests.debian import DebianError, Suite

SUITE = "trixie"
PACKAGE = "openvswitch-source"
PROBES = "--enable-usdt-probes"
CONFIGURE = (
    # None of these changes what is measured, and each needs one more library.
    "--disable-ssl",
    "--disable-libcapng",
    "--disable-afxdp",
    "CFLAGS=-O2 -g -fomit-frame-pointer",
)
# What compilers are called for, by the architecture that they compile for.
HOSTS = {"arm64": "aarch64-linux-gnu"}
# By the folder of the prefix that they go to.
PRODUCTS = {
    "sbin": ("ovsdb/ovsdb-server", "vswitchd/ovs-vswitchd"),
    "bin": (
        "ovsdb/ovsdb-tool",
        "utilities/ovs-appctl",
        "utilities/ovs-ofctl",
        "utilities/ovs-vsctl",
    ),
    "share/openvswitch": ("vswitchd/vswitch.ovsschema",),
}


def build(suite_name: str = SUITE, *, probes: bool = True) -> Path:
    """The prefix (sbin, bin, share) it is installed below, built if the cache has none.

    Without `probes` it is the same in all else, to compare with. Raises
    DebianError where the source can't be had or does not build.
    """
    options = (PROBES, *CONFIGURE) if probes else CONFIGURE
    return _built(Suite(suite_name), "" if probes else "-without-probes", options)


def cross_build(suite_name: str, architecture: str) -> Path:
    """The same with probes, for another architecture of Debian's; nothing of it is run.

    The header of the probes is that architecture's too. Raises DebianError as build() does.
    """
    header = built(
        f"sdt-{architecture}",
        lambda folder: Suite(suite_name, architecture).unpack(folder, "systemtap-sdt-dev"),
        suite_name,
    )
    (folder,) = {file.parents[1] for file in header.rglob("sys/sdt.h")}
    options = (PROBES, *CONFIGURE, f"--host={HOSTS[architecture]}", f"CPPFLAGS=-I{folder}")
    # Libraries that this machine has are not that one's.
    return _built(Suite(suite_name), f"-{architecture}", (*options, "PKG_CONFIG=false"))


def _built(suite: Suite, kind: str, options: tuple[str, ...]) -> Path:
    with locked("ovs"):
        prefix = cache_dir() / "ovs" / (suite.version(PACKAGE) + kind)
        if not prefix.exists():
            _build(suite, prefix, options)
        return prefix


def _build(suite: Suite, prefix: Path, options: tuple[str, ...]) -> None:
    work = prefix.with_name(prefix.name + ".build")
    shutil.rmtree(work, ignore_errors=True)
    suite.unpack(work, PACKAGE)
    source = work / "usr" / "src" / "openvswitch"
    archive = source / "openvswitch.tar.gz"  # Debian 12 has the source in there
    if archive.exists():
        subprocess.run(["tar", "--extract", f"--file={archive}", "-C", source.parent], check=True)
    log = prefix.with_name(prefix.name + ".log")
    print(f"Building Open vSwitch {prefix.name} (a minute or two)", file=sys.stderr)
    with open(log, "wb") as output:
        for command in _commands(options):
            done = subprocess.run(
                command, cwd=source, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            if done.returncode != 0:
                raise DebianError(f"Open vSwitch does not build: {command[0]} failed, see {log}")
    installed = work / "prefix"
    for folder, files in PRODUCTS.items():
        (installed / folder).mkdir(parents=True)
        for file in files:
            shutil.copy2(source / file, installed / folder)
    installed.rename(prefix)
    shutil.rmtree(work)


def _commands(options: tuple[str, ...]) -> list[list[str]]:
    """Configure, then make the few programs used here; all of them would take thrice as long."""
    products = [file for files in PRODUCTS.values() for file in files]
    make = ["make", f"--jobs={len(os.sched_getaffinity(0))}"]
    # Automake makes BUILT_SOURCES only for its own targets, such as `all`. An --eval comes
    # before the Makefile, which sets the variable: hence the second expansion.
    generated = ["--eval=.SECONDEXPANSION:", "--eval=generated: $$(BUILT_SOURCES)", "generated"]
    return [["./configure", *options], [*make, *generated], [*make, *products]]


if __name__ == "__main__":
    print(build(*sys.argv[1:]))
