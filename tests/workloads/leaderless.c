/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose first thread has ended while another works on.
 *
 * Prints "ready" once the first is a zombie. Makes as many rounds as each line of
 * input says, in each a call of round_work() and a hit of main:run_start,
 * main:poll_block and dpif_recv:recv_upcall, and then prints "end". It exits at the
 * end of its input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sdt.h>
#include <unistd.h>

static const char packet[] = "a packet", key[] = "a flow key";

/* The first thread's state: the letter behind the name in /proc/PID/stat. */
static char first_thread_state(void)
{
	char line[256] = "";
	FILE *stat = fopen("/proc/self/stat", "r");
	char *name_end;

	if (!stat || !fgets(line, sizeof(line), stat))
		abort();
	fclose(stat);
	name_end = strrchr(line, ')');
	return name_end ? name_end[2] : 0;
}

__attribute__((noipa)) void round_work(void)
{
	usleep(1000);
}

static void *work(void *unused)
{
	char line[32];

	while (first_thread_state() != 'Z')
		usleep(1000);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		for (long left = atol(line); left > 0; left--) {
			DTRACE_PROBE(main, run_start);
			round_work();
			DTRACE_PROBE6(dpif_recv, recv_upcall, "system@leaderless", 1, packet,
				      sizeof(packet), key, sizeof(key));
			DTRACE_PROBE(main, poll_block);
		}
		puts("end");
		fflush(stdout);
	}
	exit(0);
	return unused;
}

int main(void)
{
	pthread_t worker;

	if (pthread_create(&worker, NULL, work, NULL))
		return 1;
	pthread_exit(NULL);
}
