"""Runs the integration tests on each kernel of kernels.toml: python -m tests.kernels.run."""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests import ovs_with_usdt
from tests.debian import DebianError
from tests.kernels import compatibility
from tests.kernels.guest import Guest, GuestError, kvm_boots
from tests.kernels.images import Image, Kernel, chosen_tests, fetch, guest_tests, listed_kernels
from tests.kernels.results import (
    KernelRun,
    Outcome,
    all_tests,
    cell,
    failures,
    read_junit,
    reasons,
)

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "build" / "kernels"
# Each guest, emulated, takes one CPU at most, and now and then waits: three fill two of them.
GUESTS_AT_A_TIME = 3


def main() -> int:
    """Run them and print the table; exit status 1 if any kernel failed."""
    options = _options()
    console = Console(stderr=True)
    try:
        images = [fetch(kernel) for kernel in _chosen(options.kernel)]
        binaries = {
            image.kernel: open_vswitches(
                ovs_with_usdt.SUITE if options.choice else image.kernel.open_vswitch
            )
            for image in images
        }
    except (DebianError, subprocess.CalledProcessError) as error:
        console.print(f"test-kernels: {error}", markup=False)
        return 1
    _compile_tests()
    kvm = kvm_boots(images[0], RESULTS / "kvm")
    accelerator = "KVM" if kvm else "TCG (emulation)"
    console.print(f"Booting {len(images)} kernels in QEMU with {accelerator}")

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    guests = [Guest(image, kvm, _results_of(image), stop) for image in images]

    def test(guest: Guest) -> KernelRun:
        start = time.monotonic()
        run = _test(guest, binaries[guest.image.kernel], options)
        verdict = "passed" if run.passed else f"FAILED: {run.failure or 'see the table'}"
        console.print(
            f"{run.name} ({run.release}): {verdict}, "
            f"{time.monotonic() - start:.0f} s, {guest.results}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        return run

    with ThreadPoolExecutor(GUESTS_AT_A_TIME) as pool:
        runs = list(pool.map(test, guests))
    _print_table(runs)
    # Last, since the end of a long log is what is read first.
    for run, guest in zip(runs, guests, strict=True):
        for line in guest.last_words() if run.failure else failures(run):
            console.print(f"{run.name}: {line}", markup=False, highlight=False, soft_wrap=True)
    if options.write_docs:
        every = [_latest(kernel, runs) for kernel in listed_kernels()]
        tests = compatibility.collected_tests()
        compatibility.PAGE.write_text(compatibility.page(every, accelerator, tests))
    return 0 if all(run.passed for run in runs) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kernels.run", description=__doc__)
    parser.add_argument("--kernel", action="append", help="only this kernel of the list")
    parser.add_argument("--limit", type=float, default=1800, help="a guest's time-out, in seconds")
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
        help=f"write {compatibility.PAGE}; of a kernel that is left out, from its last results",
    )
    parser.add_argument("pytest", nargs="*", help="pytest's arguments in place of the folder")
    return parser.parse_args()


def _chosen(names: list[str] | None) -> list[Kernel]:
    kernels = listed_kernels()
    chosen = [kernel for kernel in kernels if names is None or kernel.name in names]
    if not chosen:
        sys.exit(f"no such kernel; the list has {', '.join(kernel.name for kernel in kernels)}")
    return chosen


def open_vswitches(suite: str) -> list[str]:
    """Where the tests find them, as variables: Debian's own one, and a suite's with USDT probes."""
    script = REPOSITORY / "setup" / "openvswitch.sh"
    debian = subprocess.run([script], check=True, stdout=subprocess.PIPE, text=True).stdout
    probes = ovs_with_usdt.build(suite)
    return [f"KERNEL_DELAY_OVS={debian.strip()}", f"KERNEL_DELAY_USDT_OVS={probes}"]


def _compile_tests() -> None:
    """Have pytest keep its form of the tests, which an emulated CPU takes a minute to make."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", *guest_tests()]
    subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL, check=False)


def _results_of(image: Image) -> Path:
    return RESULTS / image.release


def _test(guest: Guest, open_vswitches: list[str], options: argparse.Namespace) -> KernelRun:
    name, release = guest.image.kernel.name, guest.image.release
    junit = guest.results / "junit.xml"
    chosen = [] if options.choice is None or guest.kvm else chosen_tests(options.choice)
    command = [
        *("env", *open_vswitches, sys.executable),
        *("-m", "pytest", "-p", "no:cacheprovider", "-v", "--color=no", "--durations=10"),
        f"--junit-xml={junit}",
        *(options.pytest or chosen or guest_tests()),
    ]
    try:
        status = guest.run(command, options.limit)
    except GuestError as error:
        return KernelRun(name, release, {}, failure=str(error))
    try:
        outcomes = read_junit(junit)
    except (OSError, SyntaxError):
        outcomes = {}
    failed = any(result.outcome is Outcome.FAILED for result in outcomes.values())
    # pytest's status is 1 where tests failed: the table says which.
    failure = "" if status == 0 or failed else f"pytest's exit status is {status}"
    return KernelRun(name, release, outcomes, failure)


def _latest(kernel: Kernel, runs: list[KernelRun]) -> KernelRun:
    """The kernel's run of these, or else what it last came to, which may be nothing."""
    for run in runs:
        if run.name == kernel.name:
            return run
    image = fetch(kernel)
    junit = _results_of(image) / "junit.xml"
    outcomes = read_junit(junit) if junit.exists() else {}
    return KernelRun(kernel.name, image.release, outcomes)


def _print_table(runs: list[KernelRun]) -> None:
    notes = reasons(runs)
    table = Table("test", *(f"{run.name}\n{run.release}" for run in runs))
    for test in all_tests(runs):
        table.add_row(test, *(cell(run.result(test), notes) for run in runs))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    for reason, number in notes.items():
        console.print(f"({number}) {' '.join(reason.split())}", markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
