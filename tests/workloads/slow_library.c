// SPDX-License-Identifier: Apache-2.0
/* What a program in another language calls, and takes long: so many ms of CPU time. */
#include <time.h>

static long long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__attribute__((noinline)) void kd_be_slow(long long ms)
{
	long long until = cpu_ns() + ms * 1000000;

	while (cpu_ns() < until)
		;
}
