// SPDX-License-Identifier: Apache-2.0
/*
 * machine RUN_NS: a virtual machine of KVM's, of x86, whose only instruction jumps
 * to itself, runs for that long.
 *
 * "there" is whether the kernel lets it have one. Answers with how long it ran.
 */
#include "workload.h"

#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define CODE 0x1000
#define CODE_BYTES 0x1000
#define AGAIN_NS 10000000

static int processor;

static void on_alarm(int signal)
{
}

/* False if there can be none here. */
static bool make_machine(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), machine;
	char *memory =
		mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = CODE,
		.memory_size = CODE_BYTES,
		.userspace_addr = (uintptr_t)memory,
	};
	struct kvm_regs registers = {.rip = CODE, .rflags = 2};
	struct kvm_sregs segments;

	if (kvm < 0 || memory == MAP_FAILED)
		return false;
	memcpy(memory, "\xeb\xfe", 2); /* jmp $ */
	machine = ioctl(kvm, KVM_CREATE_VM, 0);
	if (machine < 0 || ioctl(machine, KVM_SET_USER_MEMORY_REGION, &region))
		return false;
	processor = ioctl(machine, KVM_CREATE_VCPU, 0);
	if (processor < 0 || ioctl(processor, KVM_GET_SREGS, &segments))
		return false;
	segments.cs.base = segments.cs.selector = 0;
	return !ioctl(processor, KVM_SET_SREGS, &segments) &&
	       !ioctl(processor, KVM_SET_REGS, &registers);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerspec length = {};
	int64_t run_ns = atoll(argv[1]), start_ns;
	bool there = make_machine();
	timer_t timer;

	answer("{\"there\": %s}", there ? "true" : "false");
	if (!there)
		return 0;
	sigaction(SIGALRM, &action, NULL);
	require(!timer_create(CLOCK_MONOTONIC, NULL, &timer), "timer_create");
	wait_for_line();
	length.it_value = (struct timespec){run_ns / NS_PER_S, run_ns % NS_PER_S};
	/* Again, as the first signal may come where the machine does not run. */
	length.it_interval.tv_nsec = AGAIN_NS;
	start_ns = now_ns();
	require(!timer_settime(timer, 0, &length, NULL), "timer_settime");
	/* Until the signal; where instructions are emulated it returns at times. */
	while (now_ns() - start_ns < run_ns)
		ioctl(processor, KVM_RUN, 0);
	/* It would interrupt the wait for a line, too. */
	length = (struct itimerspec){};
	require(!timer_settime(timer, 0, &length, NULL), "timer_settime");
	answer("{\"took_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
