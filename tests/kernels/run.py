"""Runs the integration tests on each kernel of kernels.toml: python -m tests.kernels.run."""

import argparse
import datetime
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests import ovs_with_usdt
from tests.debian import DebianError
from tests.kernels import arm64_root, compatibility
from tests.kernels.arm64_guest import Arm64Guest
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import (
    REPOSITORY,
    Image,
    Kernel,
    MissingImageError,
    chosen_tests,
    fetch,
    guest_tests,
    listed_kernels,
    own_kernels,
)
from tests.kernels.record import PAGE, Circumstances, Outcomes, commit
from tests.kernels.results import (
    KernelRun,
    Result,
    closing_lines,
    failures,
    footnotes,
    read_outcomes,
    tally,
)

RESULTS = REPOSITORY / "build" / "kernels"
# Each guest, emulated, takes one CPU at most, and now and then waits: three fill two of them.
GUESTS_AT_A_TIME = 3

# No test takes so long, and each prints its name before and its outcome after.
SILENCE_S = 600

# An emulated CPU takes seconds to import what other packages add to pytest, and no guest's test
# uses any of it; the last two collect garbage, again and again.
FEW_PLUGINS = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",)
FEWER_PLUGINS = tuple(
    f"-pno:{name}" for name in ("cacheprovider", "unraisableexception", "threadexception")
)


def main() -> int:
    """Run them and print the table; exit status 1 if any kernel failed, or there was none."""
    options = _options()
    console = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
    sources = commit()
    try:
        images, missing = images_of(_chosen(options))
        binaries = {
            image.kernel: open_vswitches(
                ovs_with_usdt.SUITE if options.choice else image.kernel.open_vswitch,
                image.kernel.architecture,
            )
            for image in images
        }
    except (DebianError, subprocess.CalledProcessError) as error:
        console.print(f"test-kernels: {error}")
        return 1
    runs: list[KernelRun] = []
    if images:
        kvm = all(kvm_boots(image, RESULTS / "kvm") for image in images)
        accelerator = "KVM" if kvm else "TCG"
        console.print(f"Booting {len(images)} kernels in QEMU with {accelerator}")
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        guests = [
            kind_of_guest(image)(image, kvm, RESULTS / image.release, stop, options.cpus)
            for image in images
        ]
        _compile_tests(guests, options)

        def test(guest: Guest) -> KernelRun:
            start = time.monotonic()
            run = run_tests(guest, binaries[guest.image.kernel], options)
            verdict = "passed" if run.passed else f"FAILED: {run.failure or 'see the table'}"
            duration_s = time.monotonic() - start
            console.print(f"{_title(run)}: {verdict}, {duration_s:.0f} s, {guest.results}")
            return run

        with ThreadPoolExecutor(GUESTS_AT_A_TIME) as pool:
            runs = list(pool.map(test, guests))
        _print_table([*runs, *missing])
        # Last, since the end of a long log is what is read first.
        for run, guest in zip(runs, guests, strict=True):
            for line in guest.last_words() if run.failure else ():
                console.print(f"{run.name}: {line}")
        for run in runs:
            for line in closing_lines(run):
                console.print(line)
        outcomes = [_stored(run, guest, sources) for run, guest in zip(runs, guests, strict=True)]
        if options.write_docs:
            compatibility.write(outcomes)
    for run in missing:
        console.print(f"{run.name}: NOT RUN: {run.not_run}")
    return 0 if runs and all(run.passed for run in runs) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.run", description=__doc__)
    parser.add_argument("--kernel", action="append", help="only this kernel of the list")
    parser.add_argument(
        "--limit",
        type=float,
        default=SILENCE_S,
        help="end a guest that has printed nothing for so many seconds",
    )
    parser.add_argument("--cpus", type=int, default=2, help="how many CPUs each guest has")
    for choice in ("least", "brief"):
        parser.add_argument(
            f"--{choice}",
            dest="choice",
            action="store_const",
            const=choice,
            help=f"where emulated, only the tests that `{choice}` lists",
        )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help=f"put the results beside those of earlier runs, and write {PAGE}",
    )
    parser.add_argument("tests", nargs="*", help="folders, files and tests in place of all")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> list[Kernel]:
    """The kernels that are named, or all of this machine's on which the tests asked for can run."""
    kernels, names = own_kernels(), options.kernel
    if names:
        chosen = [kernel for kernel in listed_kernels() if kernel.name in names]
    elif options.choice == "least":
        chosen = [kernel for kernel in kernels if kernel.least]
    else:
        chosen = [kernel for kernel in kernels if not (kernel.tests and options.tests)]
    if not chosen:
        all_names = (kernel.name for kernel in listed_kernels())
        sys.exit(f"no such kernel; the list has {', '.join(all_names)}")
    return chosen


def images_of(kernels: Iterable[Kernel]) -> tuple[list[Image], list[KernelRun]]:
    """What can be booted, and of what can't a run that says why."""
    images: list[Image] = []
    missing: list[KernelRun] = []
    for kernel in kernels:
        try:
            images.append(fetch(kernel))
        except MissingImageError as error:
            missing.append(KernelRun(kernel.name, "", {}, not_run=str(error)))
    return images, missing


def kind_of_guest(image: Image) -> type[Guest]:
    """Where a kernel of its architecture boots."""
    return Arm64Guest if image.kernel.architecture else Guest


def open_vswitches(suite: str, architecture: str = "") -> list[str]:
    """Where the tests find them, as variables: Debian's own one, and a suite's with USDT probes."""
    if architecture:
        return arm64_root.open_vswitches(suite)
    script = REPOSITORY / "setup" / "openvswitch.sh"
    debian = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout
    probes = ovs_with_usdt.build(suite)
    return [f"KERNEL_DELAY_OVS={debian.strip()}", f"KERNEL_DELAY_USDT_OVS={probes}"]


def _compile_tests(guests: Iterable[Guest], options: argparse.Namespace) -> None:
    """Have pytest keep its form of the tests, which an emulated CPU takes a minute to make."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for tests in {tuple(_tests(guest, options)) for guest in guests}:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", *tests]
        subprocess.run(
            command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, check=False
        )


def _tests(guest: Guest, options: argparse.Namespace) -> list[str]:
    """What pytest is to run in the guest."""
    if guest.image.kernel.tests:
        return list(guest.image.kernel.tests)
    if options.tests:
        return guest_tests(options.tests)
    if options.choice and not guest.kvm:
        return chosen_tests(options.choice)
    return guest_tests()


def run_tests(guest: Guest, open_vswitches: list[str], options: argparse.Namespace) -> KernelRun:
    """Run them; what comes after a test in which the guest ended runs in another one."""
    name, release = guest.image.kernel.name, guest.image.release
    earlier: list[Path] = []
    results: dict[str, Result] = {}
    while True:
        command = [
            *("env", *open_vswitches, *FEW_PLUGINS, guest.python),
            *("-m", "pytest", *FEWER_PLUGINS, "-v", "--color=no", "--durations=10"),
            *("-p", "tests.kernels.outcomes", f"--outcomes={guest.outcomes}"),
            *(f"--earlier={path}" for path in earlier),
            *_tests(guest, options),
        ]
        status, failure = 0, ""
        try:
            status = guest.run(command, options.limit)
        except GuestError as error:
            failure = str(error)
        found = read_outcomes(guest.outcomes) if guest.outcomes.exists() else {}
        results |= found
        if not failure or not found or guest.stop.is_set():
            break
        earlier.append(guest.keep(len(earlier) + 1))
    run = KernelRun(name, release, results, failure)
    # pytest's status is 1 where tests failed: the table says which.
    if status and not failures(run):
        run = replace(run, failure=f"pytest's exit status is {status}")
    return run


def _stored(run: KernelRun, guest: Guest, sources: str) -> Outcomes:
    """The run's results with their circumstances, which are kept beside the guest's console."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    accelerator = "KVM" if guest.kvm else "TCG"
    outcomes = Outcomes(
        Circumstances(run.name, run.release, sources, date, accelerator), run.results
    )
    outcomes.write(guest.results / "run.json")
    return outcomes


def _title(run: KernelRun) -> str:
    return f"{run.name} ({run.release})" if run.release else run.name


def _print_table(runs: list[KernelRun]) -> None:
    """A row for each file; a kernel that was not run has a column that says so."""
    notes = footnotes(result for run in runs for result in run.results.values())
    table = Table("file", *(f"{run.name}\n{run.release}" for run in runs))
    for file in sorted({test.partition("::")[0] for run in runs for test in run.results}):
        table.add_row(file.removeprefix("tests/"), *(_cell(run, file, notes) for run in runs))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for reason, number in notes.items():
        console.print(f"[{number}] {reason}", markup=False, highlight=False)


def _cell(run: KernelRun, file: str, notes: dict[str, int]) -> str:
    if run.not_run:
        return compatibility.NOT_RUN
    of_file = [of for test, of in run.results.items() if test.partition("::")[0] == file]
    return tally(of_file, notes)


if __name__ == "__main__":
    sys.exit(main())
