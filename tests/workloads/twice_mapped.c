// SPDX-License-Identifier: Apache-2.0
/*
 * twice_mapped: a program at a fixed address (-no-pie) that maps a page of its own code again, at
 * another: as V8 does, to have it near what it compiles.
 */
#include "workload.h"

#include <sys/mman.h>

extern char __executable_start[];

int main(void)
{
	long page = sysconf(_SC_PAGESIZE);
	uintptr_t code = (uintptr_t)main & -page;
	off_t offset = code - (uintptr_t)__executable_start;
	int self = open("/proc/self/exe", O_RDONLY);

	require(mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, self, offset) != MAP_FAILED,
		"mmap");
	answer("%d", (int)gettid());
	wait_for_line();
	return 0;
}
