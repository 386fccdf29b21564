// SPDX-License-Identifier: Apache-2.0
/*
 * many_locks COUNT HOLD_NS: a thread holds so many mutexes and frees one after the
 * other, each after so long, while the first thread takes them in the same order.
 * Answers with the owner's thread id and how long the first waited in all.
 */
#include "workload.h"

#define MOST 1000

static pthread_mutex_t locks[MOST];
static pthread_barrier_t held;
static int64_t hold_ns;
static int count, owner;

static void *hold(void *unused)
{
	owner = syscall(SYS_gettid);
	for (int i = 0; i < count; i++)
		pthread_mutex_lock(&locks[i]);
	pthread_barrier_wait(&held);
	for (int i = 0; i < count; i++) {
		sleep_ns(hold_ns);
		pthread_mutex_unlock(&locks[i]);
	}
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t start_ns;

	count = atoi(argv[1]);
	require(count <= MOST, "too many");
	hold_ns = atoll(argv[2]);
	pthread_barrier_init(&held, NULL, 2);
	for (int i = 0; i < count; i++)
		pthread_mutex_init(&locks[i], NULL);
	answer("{}");
	wait_for_line();
	start_thread(hold, NULL);
	pthread_barrier_wait(&held);
	start_ns = now_ns();
	for (int i = 0; i < count; i++)
		pthread_mutex_lock(&locks[i]);
	answer("{\"owner\": %d, \"waited_ns\": %lld}", owner, (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
