// SPDX-License-Identifier: Apache-2.0
/*
 * interrupted_rounds TIMES SHORT_NS LONG_NS: so often, works for SHORT_NS between two calls of
 * poll(2), which do not wait, while a timer interrupts it once; then for LONG_NS without the timer.
 */
#include "workload.h"

#include <poll.h>
#include <sys/timerfd.h>

static void work_and_poll(int64_t work_ns)
{
	spin_ns(work_ns);
	poll(NULL, 0, 0);
}

int main(int argc, char **argv)
{
	struct itimerspec once = {.it_value.tv_nsec = atol(argv[2]) / 4};
	int timer = timerfd_create(CLOCK_MONOTONIC, 0);

	require(timer >= 0, "timerfd_create");
	answer("{}");
	wait_for_line();
	for (int times = atoi(argv[1]); times; times--) {
		require(!timerfd_settime(timer, 0, &once, NULL), "timerfd_settime");
		poll(NULL, 0, 0);
		work_and_poll(atol(argv[2]));
		work_and_poll(atol(argv[3]));
	}
	answer("{}");
	wait_for_line();
	return 0;
}
