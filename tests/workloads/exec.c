// SPDX-License-Identifier: Apache-2.0
/*
 * exec COUNT: a thread that is not the first one calls execve(2), gets the id
 * of the process with that, and then calls getppid so often.
 */
#include "workload.h"

static char **arguments;

static void *run_again(void *unused)
{
	char *again[] = {arguments[0], arguments[1], "again", NULL};

	execv("/proc/self/exe", again);
	require(false, "execv");
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 2) {
		arguments = argv;
		answer("{}");
		wait_for_line();
		pthread_join(start_thread(run_again, NULL), NULL);
	}
	for (int left = atoi(argv[1]); left > 0; left--)
		syscall(SYS_getppid);
	answer("{}");
	wait_for_line();
	return 0;
}
