// SPDX-License-Identifier: Apache-2.0
/* frames COUNT: calls getppid(2) that often, by turns from two functions. */
#include "workload.h"

__attribute__((noinline)) static int inner(void)
{
	return syscall(SYS_getppid) + 1;
}

__attribute__((noinline, noclone)) static int odd(int padding)
{
	char room[64];

	memset(room, padding, sizeof(room));
	return inner() + room[padding & 63];
}

__attribute__((noinline, noclone)) static int even(int padding)
{
	char room[64];

	memset(room, padding, sizeof(room));
	return inner() - room[padding & 63];
}

int main(int argc, char **argv)
{
	int sum = 0;

	answer("{}");
	wait_for_line();
	for (int i = atoi(argv[1]); i > 0; i--)
		sum += i % 2 ? odd(i) : even(i);
	answer("{\"sum\": %d}", sum);
	wait_for_line();
	return 0;
}
