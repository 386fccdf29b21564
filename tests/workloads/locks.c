// SPDX-License-Identifier: Apache-2.0
/*
 * locks COUNT HOLD_NS: a thread holds a mutex for that long, that often, and
 * waits as long in between until the other one waits for it. Answers with the
 * holder's thread id, the waiter's, and how long the latter waited in all.
 */
#include "workload.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held, released;
static int64_t hold_ns, waited_ns;
static int count, holder;

static void *hold(void *unused)
{
	holder = syscall(SYS_gettid);
	for (int i = 0; i < count; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&held);
		sleep_ns(hold_ns);
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&released);
	}
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	count = atoi(argv[1]);
	hold_ns = atoll(argv[2]);
	pthread_barrier_init(&held, NULL, 2);
	pthread_barrier_init(&released, NULL, 2);
	answer("{}");
	wait_for_line();
	start_thread(hold, NULL);
	for (int i = 0; i < count; i++) {
		int64_t start_ns;

		pthread_barrier_wait(&held);
		start_ns = now_ns();
		pthread_mutex_lock(&lock);
		waited_ns += now_ns() - start_ns;
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&released);
	}
	answer("{\"holder\": %d, \"waited_ns\": %lld}", holder, (long long)waited_ns);
	wait_for_line();
	return 0;
}
