"""Packages of any suite of Debian, without touching the machine's own apt lists and sources.

A `Suite` has an apt configuration of its own in the cache. It takes the mirror
(and any proxy) from the machine's configuration and trusts Debian's own keys.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cache import cache_dir, locked

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
LISTS_MAX_AGE_S = 24 * 3600


class DebianError(Exception):
    """The archive can't be reached, or does not hold what is asked for."""


@dataclass(frozen=True)
class Suite:
    """One suite of the archive, by its name below `dists/` ("bookworm", "unstable").

    Its packages are those for `architecture`, which is this machine's if empty.
    """

    name: str
    architecture: str = ""

    def closure(self, *packages: str) -> list[str]:
        """The names of the packages and all they depend on, as on an empty machine."""
        self._refresh_lists()
        listing = self._apt("apt-get", "install", "--print-uris", "--yes", "-qq", *packages)
        return [_name_in_uri_line(line) for line in listing.splitlines()]

    def version(self, package: str) -> str:
        """The version of `package` that apt would install."""
        self._refresh_lists()
        record = self._apt("apt-cache", "show", "--no-all-versions", package)
        for line in record.splitlines():
            if line.startswith("Version: "):
                return line.removeprefix("Version: ")
        raise DebianError(f"{self.name} has no package {package}")

    def unpack(self, directory: Path, *packages: str) -> None:
        """Download packages, checked against the signed lists, and unpack their files."""
        self._refresh_lists()
        downloads = directory / ".downloads"
        downloads.mkdir(parents=True, exist_ok=True)
        self._apt("apt-get", "download", *packages, cwd=downloads)
        for file in downloads.iterdir():
            subprocess.run(["dpkg-deb", "--extract", file, directory], check=True)
            file.unlink()
        downloads.rmdir()

    @property
    def _directory(self) -> Path:
        return cache_dir() / "apt" / "-".join(filter(None, (self.name, self.architecture)))

    def _refresh_lists(self) -> None:
        """Bring the package lists up to date, at most once a day; old ones do without a network."""
        refreshed = self._directory / "refreshed"
        if refreshed.exists() and time.time() - refreshed.stat().st_mtime < LISTS_MAX_AGE_S:
            return
        self._write_configuration()
        try:
            self._apt("apt-get", "update", "-qq")
        except DebianError as error:
            if not refreshed.exists():
                raise
            print(f"{error}; going on with the package lists of before", file=sys.stderr)
        refreshed.touch()

    def _write_configuration(self) -> None:
        directory = self._directory
        (directory / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (directory / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        (directory / "status").touch()
        (directory / "sources.list").write_text(
            f"deb [signed-by={KEYRING}] {mirror()} {self.name} main\n"
        )
        (directory / "apt.conf").write_text(
            f'Dir::Etc::SourceList "{directory}/sources.list";\n'
            'Dir::Etc::SourceParts "/dev/null";\n'
            'Dir::Etc::Preferences "/dev/null";\n'
            'Dir::Etc::PreferencesParts "/dev/null";\n'
            f'Dir::State "{directory}";\n'
            f'Dir::State::Status "{directory}/status";\n'
            f'Dir::Cache "{directory}";\n'
            'APT::Default-Release "";\n'
            'APT::Install-Recommends "false";\n'
            f"{self._architectures()}"
            # The cache is root's own; the user _apt can't write to it.
            'APT::Sandbox::User "root";\n'
        )

    def _architectures(self) -> str:
        if not self.architecture:
            return ""
        only = f'"{self.architecture}";'
        return f"APT::Architecture {only}\nAPT::Architectures {{ {only} }};\n"

    def _apt(self, *command: str, cwd: Path | None = None) -> str:
        environment = {**os.environ, "APT_CONFIG": str(self._directory / "apt.conf")}
        return _output(list(command), environment, cwd)


# The machine's own, which its dynamic loader goes with.
_OF_THE_MACHINE = ("libc6", "libgcc-s1", "libstdc++6", "libcrypt1")


def unpacked(package: str, *others: str) -> Path:
    """A folder in the cache with the package, these others, and the libraries that all need.

    Nothing is installed: no service of it starts. `library_path` has them found.
    """
    suite = Suite("bookworm")
    folder = cache_dir() / "unpacked" / f"{package}-{suite.version(package)}"
    with locked("unpacked"):
        if not folder.exists():
            closure = suite.closure(package, *others)
            needed = (each for each in closure if each.startswith("lib"))
            names = {*needed, *others}.difference(_OF_THE_MACHINE)
            partial = folder.with_name(folder.name + ".partial")
            shutil.rmtree(partial, ignore_errors=True)
            suite.unpack(partial, package, *sorted(names))
            partial.rename(folder)
    return folder


def library_path(folder: Path) -> dict[str, str]:
    """The environment in which a program that is `unpacked` finds its libraries."""
    folders = sorted({file.parent for file in folder.rglob("lib*.so*")})
    return {"LD_LIBRARY_PATH": ":".join(map(str, folders))}


def bare_root(suite: str, *packages: str) -> Path:
    """A root directory of the suite in the cache: the essential packages and these, no more.

    It is unpacked once, by mmdebstrap, and not to be changed.
    """
    root = cache_dir() / "roots" / "-".join((suite, *packages))
    done = root.with_name(root.name + ".done")
    with locked("roots"):
        if not done.exists():
            shutil.rmtree(root, ignore_errors=True)
            root.parent.mkdir(exist_ok=True)
            _make_root(root, suite, packages, "--variant=essential")
            done.touch()
    return root


def unpack_root(root: Path, suite: str, architecture: str, packages: Sequence[str]) -> None:
    """Unpack the packages and all they depend on, of any architecture, and configure none."""
    # As Debian 12 has these folders, whatever a package's paths say.
    merge = 'for each in bin sbin lib; do mkdir -p "$1/usr/$each"; ln -s "usr/$each" "$1"; done'
    only = f"--architectures={architecture}"
    _make_root(root, suite, packages, "--variant=extract", only, f"--setup-hook={merge}")


def _make_root(root: Path, suite: str, packages: Sequence[str], *options: str) -> None:
    command = ["mmdebstrap", "--quiet", *options]
    command += [f"--include={','.join(packages)}", f"--keyring={KEYRING}"]
    command += ['--aptopt=APT::Install-Recommends "false"']
    # A mirror may lag behind; Debian's signature still counts.
    command += ['--aptopt=Acquire::Check-Valid-Until "false"']
    _output([*command, suite, str(root), mirror()], None, None)


def mirror() -> str:
    """The address of the Debian archive that this machine's own apt sources name."""
    fields = "$(ORIGIN)|$(LABEL)|$(REPO_URI)"
    targets = _output(
        ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], None, None
    )
    for target in targets.splitlines():
        origin, label, address = target.split("|")
        if (origin, label) == ("Debian", "Debian"):
            return address
    raise DebianError(
        "apt's sources name no Debian archive with package lists: run 'apt-get update' first"
    )


def _output(command: list[str], environment: dict[str, str] | None, cwd: Path | None) -> str:
    done = subprocess.run(
        command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise DebianError(f"{' '.join(command[:2])}: {reason[0]}")
    return done.stdout


def _name_in_uri_line(line: str) -> str:
    """The package in a line of `apt-get --print-uris`: 'URI' NAME_VERSION_ARCH.deb SIZE HASH."""
    return line.split()[1].partition("_")[0]
