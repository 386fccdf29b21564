// SPDX-License-Identifier: Apache-2.0
/* What a program in another language calls, and takes long: so many ms of CPU time. */
#include <time.h>

static long long cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

__attribute__((noinline)) void kd_be_slow(long long ms)
{
	long long until = cpu_ms() + ms;

	while (cpu_ms() < until)
		;
}
