// SPDX-License-Identifier: Apache-2.0
/*
 * maps CPU LENGTH_NS: what a change of configuration has a daemon do, again and
 * again for that long: starts threads, and maps, fills and unmaps memory for them.
 * Answers with how many pages it touched.
 */
#include "workload.h"

#include <sys/mman.h>

#define SIZE (4 << 20)
#define PAGE 4096

static void *end_at_once(void *unused)
{
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t end_ns;
	long touched = 0;

	run_on(atoi(argv[1]));
	answer("{}");
	wait_for_line();
	end_ns = now_ns() + atoll(argv[2]);
	while (now_ns() < end_ns) {
		pthread_t thread = start_thread(end_at_once, NULL);
		/* Filled in by the kernel, in the call. */
		char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		char *touch = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		require(memory != MAP_FAILED && touch != MAP_FAILED, "mmap");
		for (int page = 0; page < 4; page++, touched++)
			*(volatile char *)(touch + page * PAGE) = 1;
		munmap(touch, 4 * PAGE);
		munmap(memory, SIZE);
		pthread_join(thread, NULL);
	}
	answer("{\"touched\": %ld}", touched);
	wait_for_line();
	return 0;
}
