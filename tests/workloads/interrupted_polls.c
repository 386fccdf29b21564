// SPDX-License-Identifier: Apache-2.0
/*
 * interrupted_polls TIMES POLLS: so often, makes that many calls of poll(2), which do not wait,
 * and works for 2 us before each, while a timer interrupts it each 30 us that it runs; then sleeps
 * until they may have been read.
 */
#include "workload.h"

#include <linux/perf_event.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TIMER_NS 30000
#define WORK_NS 2000
#define PAUSE_NS 20000000

/*
 * A sample of no content: what is left is the interrupt. A POSIX timer would do it in a signal's
 * handler, or, with SIGEV_NONE, not at all (kernel/time/posix-timers.c:common_hrtimer_arm(), 6.18).
 */
static int open_clock(void)
{
	struct perf_event_attr each = {
		.size = sizeof(each),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = TIMER_NS,
		.disabled = 1,
	};
	int clock = syscall(SYS_perf_event_open, &each, 0, -1, -1, 0);

	require(clock >= 0, "perf_event_open");
	return clock;
}

static void work_and_poll(void)
{
	spin_ns(WORK_NS);
	poll(NULL, 0, 0);
}

int main(int argc, char **argv)
{
	int clock = open_clock();

	answer("{}");
	wait_for_line();
	for (int times = atoi(argv[1]); times; times--) {
		require(!ioctl(clock, PERF_EVENT_IOC_ENABLE, 0), "PERF_EVENT_IOC_ENABLE");
		for (int polls = atoi(argv[2]); polls; polls--)
			work_and_poll();
		require(!ioctl(clock, PERF_EVENT_IOC_DISABLE, 0), "PERF_EVENT_IOC_DISABLE");
		sleep_ns(PAUSE_NS);
	}
	answer("{}");
	wait_for_line();
	return 0;
}
