// SPDX-License-Identifier: Apache-2.0
/*
 * spin CPU LENGTH_NS: answers, and then runs in its program for that long, alone
 * in its process, without a system call. Answers again with how long it was at it.
 */
#include "workload.h"

int main(int argc, char **argv)
{
	int64_t start_ns;

	run_on(atoi(argv[1]));
	answer("{}");
	wait_for_line();
	answer("{}");
	start_ns = now_ns();
	spin_ns(atoll(argv[2]));
	answer("{\"took_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
