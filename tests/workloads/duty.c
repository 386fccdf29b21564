// SPDX-License-Identifier: Apache-2.0
/*
 * duty CPU LENGTH_NS {POLICY RUN_NS SLEEP_NS}...: a thread for each three, all on one
 * CPU (-1: on any), that runs and sleeps in turn, for that long. POLICY is 0, or the
 * priority of SCHED_FIFO. The first answer has their ids; all sleep before and after.
 */
#include "workload.h"

#define MOST 16

struct duty {
	int64_t run_ns, sleep_ns;
	int priority, tid;
};

static pthread_barrier_t ready, start, end;
static int64_t end_ns;

static void *work(void *argument)
{
	struct duty *duty = argument;
	struct sched_param priority = {.sched_priority = duty->priority};

	duty->tid = syscall(SYS_gettid);
	if (duty->priority)
		require(!sched_setscheduler(0, SCHED_FIFO, &priority), "sched_setscheduler");
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&start);
	while (now_ns() < end_ns) {
		int64_t left_ns = end_ns - now_ns();

		spin_ns(duty->run_ns < left_ns ? duty->run_ns : left_ns);
		if (duty->sleep_ns)
			sleep_ns(duty->sleep_ns);
	}
	pthread_barrier_wait(&end);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	static struct duty duties[MOST];
	char ids[512] = "";
	int count = 0;

	if (atoi(argv[1]) >= 0)
		run_on(atoi(argv[1]));
	count = (argc - 3) / 3;
	require(count <= MOST, "too many");
	pthread_barrier_init(&ready, NULL, count + 1);
	pthread_barrier_init(&start, NULL, count + 1);
	pthread_barrier_init(&end, NULL, count + 1);
	for (int i = 0; i < count; i++) {
		duties[i].priority = atoi(argv[3 + 3 * i]);
		duties[i].run_ns = atoll(argv[4 + 3 * i]);
		duties[i].sleep_ns = atoll(argv[5 + 3 * i]);
		start_thread(work, &duties[i]);
	}
	pthread_barrier_wait(&ready);
	for (int i = 0; i < count; i++)
		sprintf(ids + strlen(ids), "%s%d", i ? ", " : "", duties[i].tid);
	answer("{\"tids\": [%s]}", ids);
	wait_for_line();
	end_ns = now_ns() + atoll(argv[2]);
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&end);
	answer("{}");
	wait_for_line();
	return 0;
}
