// SPDX-License-Identifier: Apache-2.0
/*
 * Bursts of system calls from stacks of a kind: `calls KIND`, which is alloca, signal, altstack or
 * vdso.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BURST 100
#define SLEEP_NS 5000000

#define KEPT __attribute__((noinline, noclone))

static KEPT int call(int n)
{
	return getppid() + n;
}

/* A frame of a size that only its own run knows, with others of that kind below it. */
static KEPT int from_alloca(int n)
{
	size_t size = 16 + (size_t)n * 37 % 3000;
	volatile char *room = alloca(size);
	int found;

	memset((char *)room, n, size);
	found = n % 4 ? from_alloca(n - 1) : call(n);
	return found + room[size / 2];
}

/* And one that is aligned: the frame pointer is another register's for a while. */
static KEPT int from_aligned(int n)
{
	_Alignas(64) volatile char bytes[256];
	volatile char *room = alloca(32 + n % 512);

	bytes[n % 256] = room[0] = n;
	return from_alloca(n) + bytes[n % 256] + room[0];
}

static KEPT void on_signal(int number)
{
	call(number);
}

static KEPT int from_handler(int n)
{
	return n % 3 ? from_handler(n - 1) + 1 : raise(SIGUSR1);
}

static KEPT int from_vdso(int n)
{
	struct timespec now;

	/* The vDSO has no answer to this one, and asks the kernel. */
	return n % 5 ? from_vdso(n - 1) + 1 : clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

static void handle(int flags)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

int main(int argc, char **argv)
{
	struct timespec pause = {.tv_nsec = SLEEP_NS};
	int (*step)(int) = NULL;

	if (argc == 2 && !strcmp(argv[1], "alloca"))
		step = from_aligned;
	if (argc == 2 && !strcmp(argv[1], "signal"))
		step = from_handler;
	if (argc == 2 && !strcmp(argv[1], "altstack"))
		step = from_handler;
	if (argc == 2 && !strcmp(argv[1], "vdso"))
		step = from_vdso;
	if (!step)
		return 64;
	handle(strcmp(argv[1], "altstack") ? 0 : SA_ONSTACK);
	for (int n = 0;; n = (n + 1) % 10000) {
		step(n);
		if (n % BURST == 0)
			nanosleep(&pause, NULL);
	}
}
