// SPDX-License-Identifier: Apache-2.0
/* calls NUMBER=COUNT...: makes each of these system calls that often, with no arguments. */
#include "workload.h"

int main(int argc, char **argv)
{
	answer("{}");
	wait_for_line();
	for (int i = 1; i < argc; i++) {
		char *count;
		long number = strtol(argv[i], &count, 10);

		for (long left = atol(count + 1); left > 0; left--)
			syscall(number, 0, 0, 0, 0, 0, 0);
	}
	answer("{}");
	wait_for_line();
	return 0;
}
