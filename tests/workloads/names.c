// SPDX-License-Identifier: Apache-2.0
/*
 * names COUNT: starts threads that are given a name by themselves or by
 * another thread, and exit. Answers with their thread ids, in the order of
 * their numbers: self-0, other-1, self-2, …
 */
#include "workload.h"

#define MOST 256

static pthread_barrier_t named;
static int tids[MOST];

static void *be_named(void *argument)
{
	int number = (int)(intptr_t)argument;
	char name[16];

	tids[number] = gettid();
	if (number % 2 == 0) {
		snprintf(name, sizeof(name), "self-%d", number);
		prctl(PR_SET_NAME, name);
	}
	pthread_barrier_wait(&named);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]), length = 0;
	char line[4096], name[16];
	pthread_t thread;

	require(count <= MOST, "COUNT");
	answer("{}");
	wait_for_line();
	pthread_barrier_init(&named, NULL, 2);
	for (int i = 0; i < count; i++) {
		thread = start_thread(be_named, (void *)(intptr_t)i);
		if (i % 2) {
			snprintf(name, sizeof(name), "other-%d", i);
			pthread_setname_np(thread, name);
		}
		pthread_barrier_wait(&named);
		pthread_join(thread, NULL);
		length += snprintf(line + length, sizeof(line) - length, "%s%d", i ? ", " : "",
				   tids[i]);
	}
	answer("{\"tids\": [%s]}", line);
	wait_for_line();
	return 0;
}
