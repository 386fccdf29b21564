// SPDX-License-Identifier: Apache-2.0
/*
 * sleepers FIRST LENGTH_NS: three threads that sleep that long again and again, and wait for
 * nothing else. FIRST: the first thread "sleeps" so too, or "reads" until its input ends.
 */
#include "workload.h"

#define SLEEPERS 3

static pthread_barrier_t in_place;
static int64_t length_ns;

static void sleep_on(void)
{
	for (;;)
		sleep_ns(length_ns);
}

static void *sleep_beside(void *unused)
{
	pthread_barrier_wait(&in_place);
	sleep_on();
	return unused;
}

int main(int argc, char **argv)
{
	require(argc == 3, "arguments");
	length_ns = atoll(argv[2]);
	pthread_barrier_init(&in_place, NULL, SLEEPERS + 1);
	for (int i = 0; i < SLEEPERS; i++)
		start_thread(sleep_beside, NULL);
	pthread_barrier_wait(&in_place);
	answer("ready");
	if (!strcmp(argv[1], "sleeps"))
		sleep_on();
	wait_for_line();
	return 0;
}
