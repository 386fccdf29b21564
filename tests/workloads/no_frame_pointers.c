// SPDX-License-Identifier: Apache-2.0
/*
 * no_frame_pointers COUNT: calls getppid(2) that often from code whose rbp (x29 on arm64) points to
 * numbers on its stack, another one in each call.
 */
#include "workload.h"

static __attribute__((noipa)) long call_with(unsigned long number)
{
	/* As two frames: where the next one is, and the address to return to. */
	volatile unsigned long frames[4] = {(unsigned long)&frames[2], number, 0, 3 * number};
	long result = SYS_getppid;

#if defined(__x86_64__)
	__asm__ volatile("mov %%rbp, %%r9\n\tmov %1, %%rbp\n\tsyscall\n\tmov %%r9, %%rbp"
			 : "+a"(result)
			 : "r"(frames)
			 : "rcx", "r9", "r11", "memory");
#elif defined(__aarch64__)
	__asm__ volatile("mov x9, x29\n\tmov x29, %1\n\tmov x8, %0\n\tsvc #0\n\tmov x29, x9"
			 : "+r"(result)
			 : "r"(frames)
			 : "x0", "x8", "x9", "memory");
#endif
	return result;
}

int main(int argc, char **argv)
{
	answer("ready");
	wait_for_line();
	for (int i = atoi(argv[1]); i > 0; i--)
		call_with(0x123456789 + 4096ul * i);
	answer("{}");
	wait_for_line();
	return 0;
}
