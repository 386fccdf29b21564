// SPDX-License-Identifier: Apache-2.0
/*
 * tsc_khz: prints how often the time stamp counter counts in a millisecond, by CLOCK_MONOTONIC.
 */
#include "workload.h"

#include <x86intrin.h>

struct moment {
	uint64_t counter;
	int64_t ns;
};

/* Both clocks at a time: of several pairs that with the least between its two counts. */
static struct moment read_both(void)
{
	uint64_t before, between, least = UINT64_MAX;
	struct moment found = {};
	int64_t ns;

	for (int i = 0; i < 100; i++) {
		before = __rdtsc();
		ns = now_ns();
		between = __rdtsc() - before;
		if (between < least) {
			least = between;
			found = (struct moment){before + between / 2, ns};
		}
	}
	return found;
}

int main(void)
{
	struct moment begin = read_both(), end;

	sleep_ns(NS_PER_S / 10);
	end = read_both();
	printf("%llu\n", (unsigned long long)((end.counter - begin.counter) * 1000000. /
					      (end.ns - begin.ns)));
	return 0;
}
