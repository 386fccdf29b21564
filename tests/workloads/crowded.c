// SPDX-License-Identifier: Apache-2.0
/* crowded THREADS: so many threads that only compute, the main one among them. */
#define _GNU_SOURCE
#include "workload.h"

static void *compute(void *unused)
{
	for (;;)
		spin_ns(NS_PER_S);
	return unused;
}

int main(int argc, char **argv)
{
	require(argc == 2, "arguments");
	for (int thread = 1; thread < atoi(argv[1]); thread++)
		start_thread(compute, NULL);
	answer("{}");
	return compute(NULL) != NULL;
}
