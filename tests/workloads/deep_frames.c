// SPDX-License-Identifier: Apache-2.0
/*
 * Calls from below frames as large as those of Open vSwitch's handler threads
 * (recv_upcalls(), dpif_netlink_operate__() and nl_sock_recv__() of 3.x):
 * deep_frames TOUCHED BOUND. Of each buffer's pages every TOUCHEDth is written
 * to. At each line of input a thread makes 100 getppid(2) calls there and 100
 * more one frame higher, with words in the buffers that look like return
 * addresses into these functions. BOUND: "frames", or "variable" for one on
 * the way whose size no unwind information tells.
 */
#include "workload.h"

#define PAGE 4096
#define CALLS 100

static int touched;
static bool is_variable;
static void *bait;

/* Keeps the compiler from taking a buffer, or what is in it, for unused. */
#define IS_USED(buffer) __asm__ volatile("" : : "r"(buffer) : "memory")

static void touch(char *buffer, size_t size)
{
	/* Each word of a page that is touched: some of these lie where a return address could. */
	for (size_t at = 0; at + PAGE <= size; at += touched * PAGE)
		for (size_t word = 0; word + sizeof(bait) <= PAGE; word += 8 * sizeof(bait))
			memcpy(buffer + at + word, &bait, sizeof(bait));
	IS_USED(buffer);
}

static __attribute__((noipa)) void call_often(void)
{
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
}

static __attribute__((noipa)) void receive(void)
{
	char buffer[65736 - 8];

	touch(buffer, sizeof(buffer));
	call_often();
	IS_USED(buffer);
}

static __attribute__((noipa)) void operate(void)
{
	char buffer[110568 - 8];

	bait = __builtin_return_address(0);
	touch(buffer, sizeof(buffer));
	call_often();
	receive();
	IS_USED(buffer);
}

static __attribute__((noipa)) void vary(void)
{
	char *buffer = alloca(is_variable ? 100000 + getpid() % 1000 : 16);

	IS_USED(buffer);
	operate();
	IS_USED(buffer);
}

/* Four arguments are pushed: each has a row of its own in the unwind information of the caller. */
static __attribute__((noipa)) void take_ten(int a, int b, int c, int d, int e, int f, int g, int h,
					    int i, int j)
{
}

/* As of recv_upcalls() of Open vSwitch 3.5, rows are many before the call that goes on. */
#define TAKE_TEN(n) take_ten(n, 1, 2, 3, 4, 5, 6, 7, 8, 9)

static __attribute__((noipa)) void receive_upcalls(void)
{
	char buffer[280680 - 8];

	touch(buffer, sizeof(buffer));
	for (int i = 0; i < touched; i++) {
		TAKE_TEN(i);
		TAKE_TEN(i + 1);
		TAKE_TEN(i + 2);
		TAKE_TEN(i + 3);
		TAKE_TEN(i + 4);
		TAKE_TEN(i + 5);
		TAKE_TEN(i + 6);
		TAKE_TEN(i + 7);
	}
	if (is_variable)
		vary();
	else
		operate();
	IS_USED(buffer);
}

static void *run(void *unused)
{
	(void)unused;
	receive_upcalls();
	answer("ready");
	for (;;) {
		wait_for_line();
		receive_upcalls();
		answer("done");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;

	require(argc == 3, "arguments");
	touched = atoi(argv[1]);
	is_variable = !strcmp(argv[2], "variable");
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 2 << 20);
	errno = pthread_create(&thread, &attributes, run, NULL);
	require(!errno, "pthread_create");
	pthread_join(thread, NULL);
}
