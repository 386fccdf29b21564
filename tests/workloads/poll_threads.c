// SPDX-License-Identifier: Apache-2.0
/*
 * poll_threads COUNT LONG_NS: on each line COUNT threads, one after the other, each of which polls
 * three times and ends; then the first thread works for LONG_NS of CPU time between two polls.
 * Answers with how long that was.
 */
#include "workload.h"

#include <poll.h>

static void *poll_and_end(void *unused)
{
	for (int i = 0; i < 3; i++)
		poll(NULL, 0, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t start_ns;

	answer("{}");
	for (;;) {
		wait_for_line();
		for (int i = 0; i < atoi(argv[1]); i++)
			pthread_join(start_thread(poll_and_end, NULL), NULL);
		poll(NULL, 0, 0);
		start_ns = now_ns();
		run_ns(atoll(argv[2]));
		start_ns = now_ns() - start_ns;
		poll(NULL, 0, 0);
		answer("{\"worked_ns\": %lld}", (long long)start_ns);
	}
}
