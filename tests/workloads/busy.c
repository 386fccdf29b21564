// SPDX-License-Identifier: Apache-2.0
/*
 * busy CPU LENGTH_NS SPINNERS SLEEPERS: threads that share one CPU for that
 * long. Spinners only run; sleepers sleep 80 ms, run 40 ms, and so on: seldom enough
 * that what a wake-up itself takes is little beside it. All sleep before and after.
 */
#include "workload.h"

static pthread_barrier_t start, end;
static int64_t length_ns, end_ns;

static void *spin(void *unused)
{
	pthread_barrier_wait(&start);
	spin_ns(end_ns - now_ns());
	pthread_barrier_wait(&end);
	pause();
	return NULL;
}

static void *sleep_and_spin(void *unused)
{
	pthread_barrier_wait(&start);
	while (now_ns() < end_ns) {
		sleep_ns(80000000);
		spin_ns(40000000);
	}
	pthread_barrier_wait(&end);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	int spinners = atoi(argv[3]), sleepers = atoi(argv[4]);

	run_on(atoi(argv[1]));
	length_ns = atoll(argv[2]);
	pthread_barrier_init(&start, NULL, spinners + sleepers + 1);
	pthread_barrier_init(&end, NULL, spinners + sleepers + 1);
	for (int i = 0; i < spinners; i++)
		start_thread(spin, NULL);
	for (int i = 0; i < sleepers; i++)
		start_thread(sleep_and_spin, NULL);
	answer("{}");
	wait_for_line();
	end_ns = now_ns() + length_ns;
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&end);
	answer("{}");
	wait_for_line();
	return 0;
}
