// SPDX-License-Identifier: Apache-2.0
/*
 * sleeps nanosleep|futex COUNT LENGTH_NS: sleeps that often, that long. Answers
 * with how long the calls took, all and the longest, seen from outside.
 */
#include "workload.h"

#include <linux/futex.h>

static void sleep_in_futex(const struct timespec *length)
{
	static uint32_t word;

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, length, NULL, 0);
}

int main(int argc, char **argv)
{
	int64_t total_ns = 0, max_ns = 0, length_ns = atoll(argv[3]);
	struct timespec length = {length_ns / NS_PER_S, length_ns % NS_PER_S};

	answer("{}");
	wait_for_line();
	for (int left = atoi(argv[2]); left > 0; left--) {
		int64_t took_ns, start_ns = now_ns();

		if (!strcmp(argv[1], "futex"))
			sleep_in_futex(&length);
		else
			syscall(SYS_nanosleep, &length, NULL);
		took_ns = now_ns() - start_ns;
		total_ns += took_ns;
		if (took_ns > max_ns)
			max_ns = took_ns;
	}
	answer("{\"total_ns\": %lld, \"max_ns\": %lld}", (long long)total_ns, (long long)max_ns);
	wait_for_line();
	return 0;
}
