// SPDX-License-Identifier: Apache-2.0
/*
 * bursts KIB: prints, every 20 ms, the CPU time in ns that each of 20 system
 * calls took, made under so many KiB of stack that was all written to.
 */
#include <alloca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CALLS 20

static long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t size = argc > 1 ? strtoul(argv[1], NULL, 0) * 1024 : 0;
	char *stack = alloca(size + 1);

	memset(stack, 1, size + 1);
	__asm__ volatile("" : : "r"(stack) : "memory");
	for (;;) {
		long begin = cpu_ns();

		for (int i = 0; i < CALLS; i++)
			syscall(SYS_getppid);
		printf("%ld\n", (cpu_ns() - begin) / CALLS);
		fflush(stdout);
		usleep(20000);
	}
}
