// SPDX-License-Identifier: Apache-2.0
/*
 * round_loop THREADS LONG_MS: threads that poll without a pause, and work for LONG_MS between two
 * polls each second, one after the other. Until its input ends; then it answers with how many
 * rounds there were, and how many of them were slow.
 */
#include "workload.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define MOST_THREADS 16
#define EACH_NS 1000000000

static _Atomic int64_t rounds, slow;
static _Atomic int stop;
static int64_t long_ns;

/* What `watch` is to name. */
__attribute__((noinline)) static void be_slow(void)
{
	spin_ns(long_ns);
}

static void *loop(void *first_ns)
{
	int64_t next_ns = now_ns() + (int64_t)first_ns;

	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		poll(NULL, 0, 0);
		atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
		if (now_ns() < next_ns)
			continue;
		next_ns += EACH_NS;
		be_slow();
		atomic_fetch_add_explicit(&slow, 1, memory_order_relaxed);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int count = atoi(argv[1]);
	pthread_t threads[MOST_THREADS];

	if (argc < 3 || count > MOST_THREADS)
		return 1;
	long_ns = atoll(argv[2]) * 1000000;
	for (int i = 0; i < count; i++)
		threads[i] = start_thread(loop, (void *)((int64_t)EACH_NS / count * i));
	answer("{}");
	wait_for_line();
	atomic_store(&stop, 1);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"rounds\": %lld, \"slow\": %lld}\n", (long long)rounds, (long long)slow);
	fflush(stdout);
	return 0;
}
