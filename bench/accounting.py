"""What accounting adds to the tables alone: per system call, and per switch between threads.

    python bench/accounting.py [ROUNDS]

A loop of getppid(2), and two threads that wake each other through pipes, on one
CPU, undisturbed (SCHED_RR), unmeasured and measured both ways in turn. The
least time of many batches counts: what else the machine does only adds.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static void *echo(void *unused)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return unused;
}

static void act(int pings)
{
	char byte = 0;

	if (!pings)
		syscall(SYS_getppid);
	else if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
		exit(1);
}

int main(int argc, char **argv)
{
	int pings = atoi(argv[1]), batch = pings ? 500 : 5000;
	char line[8];
	pthread_t thread;

	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, echo, NULL))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		double least_ns = 1e18;

		for (int batches = 0; batches < 200; batches++) {
			double start_ns = now_ns(), took_ns;

			for (int i = 0; i < batch; i++)
				act(pings);
			took_ns = (now_ns() - start_ns) / batch;
			if (took_ns < least_ns)
				least_ns = took_ns;
		}
		printf("%f\n", least_ns);
		fflush(stdout);
	}
	return 0;
}
"""

KINDS = {"unmeasured": None, "tables": ("--no-accounting",), "accounting": ()}


class Loop:
    """The measured process."""

    def __init__(self, program: Path, pings: bool) -> None:
        """Start it; it sleeps until it is asked."""
        cpu = str(max(os.sched_getaffinity(0)))
        self._process = subprocess.Popen(
            ["taskset", "-c", cpu, "chrt", "--rr", "1", program, str(int(pings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def least_ns(self) -> float:
        """Return the least time that one action took, on average over a batch."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def measured_ns(self, options: tuple[str, ...]) -> float:
        """Return the same while kernel-delay measures it with these options."""
        command = [sys.executable, "-m", "kernel_delay", "--pid", str(self.pid)]
        command += ["--sample-time", "600", "--json", os.devnull, *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as tool:
            while not Path(f"/proc/{tool.pid}/syscall").read_text().startswith("7 "):
                time.sleep(0.01)  # 7 is poll(2) on x86-64: the window is open
            least_ns = self.least_ns()
            tool.send_signal(signal.SIGINT)
        return least_ns

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def compare(program: Path, pings: bool, rounds: int) -> None:
    """Print what one action takes, and what was added to it."""
    loop = Loop(program, pings)
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, options in KINDS.items():
            taken[kind].append(loop.least_ns() if options is None else loop.measured_ns(options))
    loop.end()
    print("a round of two threads" if pings else "getppid(2)")
    for kind, values in taken.items():
        pairs = zip(values, taken["unmeasured"], strict=True)
        added_ns = statistics.median(value - base for value, base in pairs)
        print(f"  {kind:12} {statistics.median(values):9.1f} ns   added {added_ns:8.1f} ns")


def main() -> None:
    """Measure both."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loop"
        source = program.with_suffix(".c")
        source.write_text(SOURCE)
        subprocess.run(["cc", "-O2", "-pthread", "-o", program, source], check=True)
        for pings in (False, True):
            compare(program, pings, rounds)


if __name__ == "__main__":
    main()
