// SPDX-License-Identifier: Apache-2.0
/*
 * no_mutex KIND WAIT_NS: waits that long for a futex that begins as a mutex of glibc does, with
 * the other thread's id where that has its owner's: `arena`, the lock of malloc(), has no users
 * behind it; `glib`, a GMutex, has other data there, which can't be a mutex's; `shared` is a
 * mutex that processes share, whose owner may be in another PID namespace. Waits once more when
 * it is asked to.
 */
#include "workload.h"

#include <linux/futex.h>

static struct {
	int lock, count, owner, users, kind;
} futex = {.lock = 2};

static void *rest(void *unused)
{
	futex.owner = syscall(SYS_gettid);
	pause();
	return NULL;
}

int main(int argc, char **argv)
{
	int operation = strcmp(argv[1], "shared") ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
	int64_t wait_ns = atoll(argv[2]);
	struct timespec length = {wait_ns / 1000000000, wait_ns % 1000000000};

	futex.users = !!strcmp(argv[1], "arena");
	if (!strcmp(argv[1], "glib"))
		futex.kind = 0x5555;
	start_thread(rest, NULL);
	while (!*(volatile int *)&futex.owner)
		sleep_ns(1000000);
	answer("{}");
	for (;;) {
		syscall(SYS_futex, &futex.lock, operation, 2, &length, NULL, 0);
		answer("{}");
		wait_for_line();
	}
}
