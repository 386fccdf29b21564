// SPDX-License-Identifier: Apache-2.0
/*
 * clocked: after "go" a thread calls getppid again and again and notes when,
 * until "stop". Then "START STOP" is answered with how many calls lay wholly
 * within that time, seen from outside.
 */
#include "workload.h"

#define CALLS (16 * 1024 * 1024)
#define PAUSE_NS 2000

static int64_t times_ns[CALLS + 1]; /* call i was between times i and i + 1 */
static int calls;
static volatile bool stopped;

static void *call(void *unused)
{
	while (!stopped && calls < CALLS) {
		times_ns[calls] = now_ns();
		syscall(SYS_getppid);
		calls++;
		times_ns[calls] = now_ns();
		spin_ns(PAUSE_NS);
	}
	return NULL;
}

static int calls_within(int64_t start_ns, int64_t stop_ns)
{
	int within = 0;

	for (int i = 0; i < calls; i++)
		within += times_ns[i] >= start_ns && times_ns[i + 1] < stop_ns;
	return within;
}

int main(void)
{
	long long start_ns, stop_ns;
	pthread_t thread;
	char line[128];

	answer("{}");
	wait_for_line();
	thread = start_thread(call, NULL);
	answer("{}");
	wait_for_line();
	stopped = true;
	pthread_join(thread, NULL);
	answer("{\"calls\": %d}", calls);
	while (next_line(line, sizeof(line))) {
		require(sscanf(line, "%lld %lld", &start_ns, &stop_ns) == 2, "sscanf");
		answer("{\"calls\": %d}", calls_within(start_ns, stop_ns));
	}
	return 0;
}
