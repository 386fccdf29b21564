// SPDX-License-Identifier: Apache-2.0
/*
 * answered BY DELAY_US: calls of the main thread that somebody must answer first, who takes
 * DELAY_US each time. BY seccomp: a supervisor process; userfaultfd: a thread "filler".
 * Tells who answers, or why this kernel refuses.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "workload.h"

#define PAGE 4096
#define PAGES 64

static int64_t delay_ns;

static void refused(const char *what)
{
	answer("{\"refused\": \"%s: %s\"}", what, strerror(errno));
	exit(1);
}

static int get_descriptor(int process, int descriptor)
{
	int pidfd = syscall(SYS_pidfd_open, process, 0);
	int found = syscall(SYS_pidfd_getfd, pidfd, descriptor, 0);

	close(pidfd);
	return found;
}

static void supervise(int process, int descriptor)
{
	int listener = get_descriptor(process, descriptor);

	require(listener >= 0, "pidfd_getfd");
	for (;;) {
		struct seccomp_notif request = {};
		struct seccomp_notif_resp response = {};

		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request))
			exit(0);
		sleep_ns(delay_ns);
		response.id = request.id;
		response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response))
			exit(0);
	}
}

static void ask_supervisor(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};
	int listener, ready[2];
	pid_t self = getpid(), supervisor;

	require(!pipe(ready), "pipe");
	supervisor = fork_child();
	if (!supervisor) {
		int number;

		prctl(PR_SET_NAME, "supervisor");
		require(read(ready[0], &number, sizeof(number)) == sizeof(number), "read");
		supervise(self, number);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			   &program);
	if (listener < 0)
		refused("seccomp");
	require(write(ready[1], &listener, sizeof(listener)) == sizeof(listener), "write");
	/* The supervisor has its name and the listener once it has answered. */
	syscall(SYS_getppid);
	answer("{\"by\": %d}", supervisor);
	for (;;)
		syscall(SYS_getppid);
}

static int faults;
static char *memory;
static char filled[PAGE] __attribute__((aligned(PAGE)));
static volatile int filler_tid;

static void *fill(void *unused)
{
	pthread_setname_np(pthread_self(), "filler");
	filler_tid = gettid();
	for (;;) {
		struct uffd_msg message;
		struct uffdio_copy copy = {.src = (uintptr_t)filled, .len = PAGE};

		require(read(faults, &message, sizeof(message)) == sizeof(message), "read");
		sleep_ns(delay_ns);
		copy.dst = message.arg.pagefault.address & ~(PAGE - 1ULL);
		require(!ioctl(faults, UFFDIO_COPY, &copy), "UFFDIO_COPY");
	}
	return unused;
}

static void ask_filler(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register area = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults < 0)
		refused("userfaultfd");
	if (ioctl(faults, UFFDIO_API, &api))
		refused("UFFDIO_API");
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	area.range.start = (uintptr_t)memory;
	area.range.len = PAGES * PAGE;
	if (ioctl(faults, UFFDIO_REGISTER, &area))
		refused("UFFDIO_REGISTER");
	start_thread(fill, NULL);
	while (!filler_tid)
		sleep_ns(1000000);
	answer("{\"by\": %d}", filler_tid);
	for (;;) {
		for (int page = 0; page < PAGES; page++)
			((volatile char *)memory)[page * PAGE]++;
		madvise(memory, PAGES * PAGE, MADV_DONTNEED);
	}
}

int main(int argc, char **argv)
{
	require(argc == 3, "arguments");
	delay_ns = atoll(argv[2]) * 1000;
	pthread_setname_np(pthread_self(), "victim");
	if (!strcmp(argv[1], "seccomp"))
		ask_supervisor();
	ask_filler();
}
