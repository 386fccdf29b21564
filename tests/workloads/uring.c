// SPDX-License-Identifier: Apache-2.0
/*
 * uring worker|poller WORK_NS: io_uring's threads work for that long: a worker
 * (iou-wrk-) reads zeros, a megabyte at a time, or the ring's own thread (iou-sqp-)
 * looks for requests again and again before it sleeps.
 * uring reader FILE: reads that through a ring, and waits for it, until it is killed.
 *
 * "there" is whether the kernel lets it have a ring. Answers with the time it had.
 */
#include "workload.h"

#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ENTRIES 8
#define READ_BYTES (1 << 20)

static struct io_uring_params params;
static struct io_uring_sqe *requests;
static char *submitted, *completed;
static int ring;

static void *map(size_t size, off_t offset)
{
	void *at =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);

	require(at != MAP_FAILED, "mmap");
	return at;
}

static void submit(const struct io_uring_sqe *request)
{
	_Atomic unsigned int *tail = (void *)(submitted + params.sq_off.tail);
	unsigned int *array = (void *)(submitted + params.sq_off.array);
	unsigned int place = *tail % params.sq_entries;

	requests[place] = *request;
	array[place] = place;
	atomic_fetch_add(tail, 1);
}

static void take_completions(void)
{
	_Atomic unsigned int *head = (void *)(completed + params.cq_off.head);

	atomic_store(head, *(_Atomic unsigned int *)(completed + params.cq_off.tail));
}

static void read_some(int file, void *buffer, unsigned char flags)
{
	struct io_uring_sqe request = {
		.opcode = IORING_OP_READ,
		.flags = flags,
		.fd = file,
		.addr = (uintptr_t)buffer,
		.len = READ_BYTES,
	};

	submit(&request);
	require(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
		"io_uring_enter");
	take_completions();
}

int main(int argc, char **argv)
{
	bool poller = !strcmp(argv[1], "poller"), reader = !strcmp(argv[1], "reader");
	int64_t work_ns = atoll(argv[2]), start_ns;
	void *buffer = malloc(READ_BYTES);
	int file = open(reader ? argv[2] : "/dev/zero", O_RDONLY);

	if (poller) {
		params.flags = IORING_SETUP_SQPOLL;
		params.sq_thread_idle = work_ns / 1000000;
	}
	ring = syscall(SYS_io_uring_setup, ENTRIES, &params);
	if (ring < 0) {
		answer("{\"there\": false}");
		return 0;
	}
	submitted = map(params.sq_off.array + params.sq_entries * sizeof(int), IORING_OFF_SQ_RING);
	completed = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
			IORING_OFF_CQ_RING);
	requests = map(params.sq_entries * sizeof(*requests), IORING_OFF_SQES);
	answer("{\"there\": true}");
	while (reader)
		read_some(file, buffer, 0);
	wait_for_line();
	start_ns = now_ns();
	if (poller) {
		struct io_uring_sqe nothing = {.opcode = IORING_OP_NOP};

		submit(&nothing);
		syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
		sleep_ns(work_ns);
	} else {
		while (now_ns() - start_ns < work_ns)
			read_some(file, buffer, IOSQE_ASYNC);
	}
	answer("{\"took_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
