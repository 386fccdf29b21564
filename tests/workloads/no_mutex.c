// SPDX-License-Identifier: Apache-2.0
/*
 * no_mutex WAIT_NS: waits that long for a futex that looks like a mutex of
 * glibc but has no users: the lock of malloc()'s arena, behind which a 1 may
 * be where a mutex has its owner. In a container that is a thread's id; here
 * it is the other thread's, which the first answer has. Waits once more when
 * it is asked to.
 */
#include "workload.h"

#include <linux/futex.h>

static struct {
	int lock, flags, have_fastchunks, padding;
} arena = {.lock = 2};

static void *rest(void *unused)
{
	arena.have_fastchunks = syscall(SYS_gettid);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t wait_ns = atoll(argv[1]);
	struct timespec length = {wait_ns / 1000000000, wait_ns % 1000000000};

	start_thread(rest, NULL);
	while (!*(volatile int *)&arena.have_fastchunks)
		sleep_ns(1000000);
	answer("{\"other\": %d}", arena.have_fastchunks);
	for (;;) {
		syscall(SYS_futex, &arena.lock, FUTEX_WAIT_PRIVATE, 2, &length, NULL, 0);
		answer("{}");
		wait_for_line();
	}
}
