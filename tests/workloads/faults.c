// SPDX-License-Identifier: Apache-2.0
/*
 * faults CPU small|huge|served COUNT LENGTH_NS: touches that many pages of
 * memory for the first time: small ones; huge ones, which take the kernel long
 * to clear; or small ones that another thread serves after LENGTH_NS each
 * (userfaultfd(2)). Answers with how many faults the kernel counted for the
 * thread meanwhile, and how long the touches took, seen from outside.
 */
#include "workload.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define HUGE (2 << 20)

static size_t small;

static struct {
	int fd;
	int64_t length_ns;
} server;

static void *serve(void *unused)
{
	struct uffd_msg message;

	while (read(server.fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_zeropage page = {
			.range = {message.arg.pagefault.address & ~(small - 1ULL), small},
		};

		sleep_ns(server.length_ns);
		require(!ioctl(server.fd, UFFDIO_ZEROPAGE, &page), "UFFDIO_ZEROPAGE");
	}
	return NULL;
}

static void have_served(char *memory, size_t size)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {
		.range = {(uintptr_t)memory, size},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	server.fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	require(server.fd >= 0, "userfaultfd");
	require(!ioctl(server.fd, UFFDIO_API, &api), "UFFDIO_API");
	require(!ioctl(server.fd, UFFDIO_REGISTER, &area), "UFFDIO_REGISTER");
	start_thread(serve, NULL);
}

static char *map(size_t size, bool huge)
{
	char *memory =
		mmap(NULL, size + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(memory != MAP_FAILED, "mmap");
	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1UL));
	/* A kernel without huge pages has none to be had. */
	madvise(memory, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return memory;
}

static long faults(void)
{
	struct rusage usage;

	require(!getrusage(RUSAGE_THREAD, &usage), "getrusage");
	return usage.ru_minflt + usage.ru_majflt;
}

int main(int argc, char **argv)
{
	bool huge = !strcmp(argv[2], "huge"), served = !strcmp(argv[2], "served");
	size_t count = atoi(argv[3]), page;
	char *memory;
	int64_t took_ns;
	long before;

	small = sysconf(_SC_PAGESIZE);
	page = huge ? HUGE : small;
	memory = map(count * page, huge);
	run_on(atoi(argv[1]));
	server.length_ns = atoll(argv[4]);
	if (served)
		have_served(memory, count * page);
	answer("{}");
	wait_for_line();
	before = faults();
	took_ns = -now_ns();
	for (size_t at = 0; at < count; at++)
		((volatile char *)memory)[at * page] = 1;
	took_ns += now_ns();
	answer("{\"faults\": %ld, \"took_ns\": %lld}", faults() - before, (long long)took_ns);
	wait_for_line();
	return 0;
}
