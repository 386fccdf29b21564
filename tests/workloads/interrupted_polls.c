// SPDX-License-Identifier: Apache-2.0
/*
 * interrupted_polls TIMES POLLS: so often, makes that many calls of poll(2), which do not wait,
 * and works for 2 us before each, while a timer interrupts it each 30 us; then sleeps until they
 * may have been read.
 */
#include "workload.h"

#include <poll.h>
#include <signal.h>

#define TIMER_NS 30000
#define WORK_NS 2000
#define PAUSE_NS 20000000

static timer_t make_timer(void)
{
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	timer_t timer;

	require(!timer_create(CLOCK_MONOTONIC, &none, &timer), "timer_create");
	return timer;
}

static void set_timer(timer_t timer, long ns)
{
	struct itimerspec each = {{0, ns}, {0, ns}};

	require(!timer_settime(timer, 0, &each, NULL), "timer_settime");
}

static void work_and_poll(void)
{
	spin_ns(WORK_NS);
	poll(NULL, 0, 0);
}

int main(int argc, char **argv)
{
	timer_t timer = make_timer();

	answer("{}");
	wait_for_line();
	for (int times = atoi(argv[1]); times; times--) {
		set_timer(timer, TIMER_NS);
		for (int polls = atoi(argv[2]); polls; polls--)
			work_and_poll();
		set_timer(timer, 0);
		sleep_ns(PAUSE_NS);
	}
	answer("{}");
	wait_for_line();
	return 0;
}
