"""The wheel carries all it needs: it measures on a machine without clang and libbpf."""

import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay.register import COMMANDS
from tests.debian import bare_root

# Runs its arguments where /usr has neither the libraries nor the compiler: the files are gone
# from an overlay that only this process and its children see.
BARE_MACHINE = r"""
set -euo pipefail
scratch=$1; shift
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$scratch/upper,workdir=$scratch/work" /usr
rm -f /usr/lib/*/lib{bpf,elf,dw,seccomp}[-.]* /usr/bin/*{clang,llvm}*
rm -rf /usr/lib/llvm-* /usr/include
exec "$@"
"""

# Installs the wheel in the root $2 from the folder of packages $3, and runs the rest there.
IN_ROOT = r"""
set -euo pipefail
scratch=$1 root=$2 folder=$3; shift 3
mount -t tmpfs tmpfs "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$scratch/upper,workdir=$scratch/work" \
    "$scratch/root"
cd "$scratch/root"
mkdir packages
mount --bind "$folder" packages
for directory in proc sys dev; do mount --rbind "/$directory" "$directory"; done
exec chroot . env -i PATH=/venv/bin:/usr/bin:/usr/sbin HOME=/root sh -euc '
    python3 -m venv /venv
    pip install --quiet --no-index --find-links /packages kernel-delay
    exec "$@"
' in-root "$@"
"""
LIBRARIES = ("libbpf.so.1", "libdw.so.1", "libelf.so.1", "libseccomp.so.2")


@pytest.fixture(scope="module")
def bare_machine(root_user: None, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a command is prefixed with to run without clang and libbpf."""
    scratch = tmp_path_factory.mktemp("scratch")
    prefix = ["unshare", "--mount", "--", "bash", "-c", BARE_MACHINE, "bare", str(scratch)]
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no overlay can be laid over /usr here: {tried.stderr.strip()}")
    return prefix


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made without the `make build` of `make wheel`, which would undo `make dev`."""
    folder = tmp_path_factory.mktemp("wheel")
    # Not those of a make that runs the tests.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    subprocess.run(["make", ".venv/.extra-wheel"], cwd=project, env=clean, check=True)
    subprocess.run([project / "setup" / "wheel.sh", folder], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder of the commands in a new virtual environment with only the wheel in it."""
    subprocess.run([sys.executable, "-m", "venv", wheel.parent / "venv"], check=True)
    commands = wheel.parent / "venv" / "bin"
    subprocess.run([commands / "pip", "install", "--quiet", wheel], check=True)
    return commands


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The pid of a process that wakes up now and then."""
    program = "import time\nwhile True: time.sleep(0.01)"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        yield process.pid
        process.kill()


def test_it_holds_what_runs_and_nothing_else(project: Path, wheel: Path) -> None:
    """No C, no header, nothing that only builds, no test, no lab; by rule, not by a list."""
    source = project / "src"
    modules = {
        str(path.relative_to(source))
        for pattern in ("*.py", "*.pyi", "py.typed")
        for path in source.rglob(pattern)
        if not path.name.endswith("_build.py")
    } | {str(path.relative_to(source).with_suffix("")) for path in source.rglob("*.py.in")}
    programs = {
        f"kernel_delay/bpf/{path.with_suffix('.o').name}" for path in source.rglob("*.bpf.c")
    }
    extensions = {
        str(path.relative_to(source).with_suffix(".abi3.so"))
        for path in source.rglob("_[a-z]*.pyi")
    }
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
    pages = {
        str(path.relative_to(source))
        for folder in ("static", "vendor")
        for path in (source / "kernel_delay/reporters/page" / folder).iterdir()
    }
    queries = {str(path.relative_to(source)) for path in source.glob("kernel_delay/fleet/*")}
    apart = {name for name in files if re.match(r"kernel_delay(\.libs|-[\w.+]+\.dist-info)/", name)}
    launchers = {name for name in files if re.match(r"kernel_delay-[\w.+]+\.data/scripts/", name)}
    assert {os.path.basename(name) for name in launchers} == {"kernel-delay", "kernel_delay"}
    shared = {name for name in files if re.match(r"kernel_delay-[\w.+]+\.data/data/share/", name)}
    assert {name.partition("/share/")[2] for name in shared} == {
        "bash-completion/completions/kernel-delay.bash",
        "fish/vendor_completions.d/kernel-delay.fish",
        "zsh/site-functions/_kernel-delay",
        "man/man1/kernel-delay.1",
        *(f"man/man1/kernel-delay-{name}.1" for name in COMMANDS),
    }
    assert files - apart - launchers - shared == modules | programs | extensions | pages | queries
    libraries = {name for name in apart if name.startswith("kernel_delay.libs/")}
    assert all(re.search(r"/lib[\w.-]+\.so[\d.]*$", name) for name in libraries), libraries


def test_all_say_the_version_of_the_build(installed: Path) -> None:
    program = """
from importlib.metadata import version
from kernel_delay.version import VERSION
print("kernel-delay", VERSION, version("kernel-delay"))
"""
    said = subprocess.run(
        [installed / "python", "-c", program], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    launcher = subprocess.run(
        [installed / "kernel-delay", "--version"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    assert said == [*launcher, launcher[1]]


def test_the_bare_machine_is_bare(bare_machine: list[str]) -> None:
    program = """
import ctypes, shutil, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
    except OSError:
        continue
    raise SystemExit(f"{name} is there")
raise SystemExit(shutil.which("clang"))
"""
    subprocess.run([*bare_machine, sys.executable, "-c", program, *LIBRARIES], check=True)


def test_it_measures_there(bare_machine: list[str], installed: Path, sleeper: int) -> None:
    command = [str(installed / "kernel-delay"), "--pid", str(sleeper), "--json", "-"]
    done = subprocess.run([*bare_machine, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sample = json.loads(done.stdout)
    assert sample["target"]["pid"] == sleeper
    (thread,) = sample["threads"]
    assert thread["run"]["count"] > 0
    assert "clock_nanosleep" in {syscall["name"] for syscall in thread["syscalls"]}


def test_its_libraries_are_its_own(bare_machine: list[str], installed: Path) -> None:
    program = """
import kernel_delay.loader.programs, kernel_delay.host.syscalls
for line in open("/proc/self/maps"):
    if "/" in line:
        print(line[line.index("/"):], end="")
"""
    maps = subprocess.run(
        [*bare_machine, installed / "python", "-c", program],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    files = {Path(line) for line in maps.splitlines()}
    for name in ("libbpf", "libelf", "libseccomp"):
        ours = {file for file in files if file.name.startswith((f"{name}-", f"{name}."))}
        assert {file.parent.name for file in ours} == {"kernel_delay.libs"}, ours


def test_one_wheel_serves_every_python_and_rhel_9_glibc(wheel: Path) -> None:
    assert wheel.stem.split("-")[2:] == ["cp311", "abi3", f"manylinux_2_34_{platform.machine()}"]


@pytest.fixture(params=["bookworm", "trixie", "unstable"])
def in_bare_root(
    request: pytest.FixtureRequest, root_user: None, wheel: Path, tmp_path: Path
) -> list[str]:
    """What a command is prefixed with to run in a root with the wheel, pip, and no more.

    The wheel's dependencies are fetched here, by the pip that is set up for it.
    """
    root = bare_root(request.param, "python3-venv")
    version = next((root / "usr/bin").glob("python3.[0-9]*")).name.removeprefix("python")
    packages = tmp_path / "packages"
    platforms = [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in (34, 28, 17)]
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", f"--dest={packages}"]
    fetch += [f"--python-version={version}", "--only-binary=:all:", *platforms, str(wheel)]
    subprocess.run(fetch, check=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = ["unshare", "--mount", "--", "bash", "-c", IN_ROOT, "bare"]
    return [*script, str(scratch), str(root), str(packages)]


def test_it_measures_in_a_bare_root_of_each_debian(in_bare_root: list[str], sleeper: int) -> None:
    both = """
        command -v gcc clang && exit 1
        kernel-delay check --pid "$1" >&2
        exec kernel-delay --pid "$1" --json -
    """
    command = [*in_bare_root, "sh", "-euc", both, "measure", str(sleeper)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "A capture can run." in done.stderr
    sample = json.loads(done.stdout)
    assert sample["target"]["pid"] == sleeper
    (thread,) = sample["threads"]
    assert "clock_nanosleep" in {syscall["name"] for syscall in thread["syscalls"]}
