// SPDX-License-Identifier: Apache-2.0
/*
 * spin CPU LENGTH_NS: answers, and then runs in its program for that long, or until
 * SIGUSR1, alone in its process, without a system call. Answers again with how long it was at it.
 */
#include "workload.h"

static volatile sig_atomic_t is_ended;

static void end(int number)
{
	(void)number;
	is_ended = 1;
}

int main(int argc, char **argv)
{
	int64_t start_ns, end_ns;

	run_on(atoi(argv[1]));
	require(signal(SIGUSR1, end) != SIG_ERR, "signal");
	answer("{}");
	wait_for_line();
	answer("{}");
	start_ns = now_ns();
	end_ns = start_ns + atoll(argv[2]);
	while (!is_ended && now_ns() < end_ns)
		;
	answer("{\"took_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
