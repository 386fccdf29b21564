/* A main loop with the probes of ovs-vswitchd's, that knows its own times.
 *
 * main_loop PASSES: waits for a line on stdin, and then makes so many passes.
 * Prints a line for each with four times of CLOCK_MONOTONIC, in nanoseconds:
 * before and after main:run_start, before and after main:poll_block.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sdt.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
	long passes = argc > 1 ? atol(argv[1]) : 1;

	if (getchar() == EOF)
		return 1;
	for (long pass = 0; pass < passes; pass++) {
		uint64_t times[4];

		times[0] = now_ns();
		DTRACE_PROBE(main, run_start);
		times[1] = now_ns();
		usleep(100 * (pass % 5));
		times[2] = now_ns();
		DTRACE_PROBE(main, poll_block);
		times[3] = now_ns();
		usleep(500 + 1000 * (pass % 3));
		for (int at = 0; at < 4; at++)
			printf("%llu ", (unsigned long long)times[at]);
		puts("");
	}
	fflush(stdout);
	/* Stays until stdin is closed, so that the passes are what ends the measuring. */
	while (getchar() != EOF)
		;
	return 0;
}
