// SPDX-License-Identifier: Apache-2.0
/*
 * locks COUNT HOLD_NS: a thread holds a mutex for that long, that often, and
 * the other takes it then. Answers with the holder's thread id, how often the
 * other found it taken, how long it waited then in all, and for how much of
 * that the lock was still held.
 */
#include "workload.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held, released;
static int64_t hold_ns, waited_ns, held_ns, released_ns;
static int count, holder, waits;

static void *hold(void *unused)
{
	holder = syscall(SYS_gettid);
	for (int i = 0; i < count; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&held);
		sleep_ns(hold_ns);
		released_ns = now_ns();
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
		if (pthread_mutex_trylock(&lock)) {
			pthread_mutex_lock(&lock);
			waits++;
			waited_ns += now_ns() - start_ns;
			if (released_ns > start_ns)
				held_ns += released_ns - start_ns;
		}
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&released);
	}
	answer("{\"holder\": %d, \"waits\": %d, \"waited_ns\": %lld, \"held_ns\": %lld}", holder,
	       waits, (long long)waited_ns, (long long)held_ns);
	wait_for_line();
	return 0;
}
