// SPDX-License-Identifier: Apache-2.0
/*
 * crowd ALIVE SHORT_LIVED: with so many threads, each of which calls getppid
 * once; and then starts so many others, a few at a time, that do the same and
 * exit.
 */
#include "workload.h"

#define AT_A_TIME 32

static pthread_barrier_t start, end;

static void *stay(void *unused)
{
	pthread_barrier_wait(&start);
	syscall(SYS_getppid);
	pthread_barrier_wait(&end);
	pause();
	return NULL;
}

static void *leave(void *unused)
{
	syscall(SYS_getppid);
	return NULL;
}

static void start_short_lived(int count)
{
	pthread_t threads[AT_A_TIME];

	for (int i = 0; i < count; i++) {
		if (i >= AT_A_TIME)
			pthread_join(threads[i % AT_A_TIME], NULL);
		threads[i % AT_A_TIME] = start_thread(leave, NULL);
	}
	for (int i = count > AT_A_TIME ? count - AT_A_TIME : 0; i < count; i++)
		pthread_join(threads[i % AT_A_TIME], NULL);
}

int main(int argc, char **argv)
{
	int alive = atoi(argv[1]);

	pthread_barrier_init(&start, NULL, alive + 1);
	pthread_barrier_init(&end, NULL, alive + 1);
	for (int i = 0; i < alive; i++)
		start_thread(stay, NULL);
	answer("{}");
	wait_for_line();
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&end);
	start_short_lived(atoi(argv[2]));
	answer("{}");
	wait_for_line();
	return 0;
}
