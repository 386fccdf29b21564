// SPDX-License-Identifier: Apache-2.0
/*
 * System calls as fast as one thread can make them, until it is killed:
 * storm [DEPTH [PAUSE_US]]. Each of DEPTH calls is from a stack of its own, and
 * after each it may sleep.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static __attribute__((noipa)) void call_below(int depth)
{
	volatile char local[64] = "";

	if (depth)
		call_below(depth - 1);
	else
		syscall(SYS_getppid);
	(void)local;
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 1;
	int pause_us = argc > 2 ? atoi(argv[2]) : 0;

	puts("ready");
	fflush(stdout);
	for (int i = 0;; i = (i + 1) % depth) {
		call_below(i);
		if (pause_us)
			usleep(pause_us);
	}
}
