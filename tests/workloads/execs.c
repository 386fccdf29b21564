// SPDX-License-Identifier: Apache-2.0
/* execs COUNT: becomes itself so often, each time from a thread that is not the first one. */
#include "workload.h"

static char **arguments;
static int left;

static void *run_again(void *unused)
{
	char count[16], *again[] = {arguments[0], count, "again", NULL};

	snprintf(count, sizeof(count), "%d", left - 1);
	syscall(SYS_getppid);
	execv("/proc/self/exe", again);
	require(false, "execv");
	return NULL;
}

int main(int argc, char **argv)
{
	arguments = argv;
	left = atoi(argv[1]);
	if (argc == 2) {
		answer("{}");
		wait_for_line();
	}
	if (left > 0)
		pthread_join(start_thread(run_again, NULL), NULL);
	answer("{}");
	wait_for_line();
	return 0;
}
