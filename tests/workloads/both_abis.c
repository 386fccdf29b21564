// SPDX-License-Identifier: Apache-2.0
/*
 * both_abis NUMBER COUNT: an x86-64 program that makes the call of that number
 * that often in its own ABI and in i386's by turns, with no arguments.
 */
#include "workload.h"

static long call_i386(long number)
{
	long result;

	/* r8 to r11 are not preserved (arch/x86/entry/entry_64_compat.S, before 4.16). */
	asm volatile("int $0x80"
		     : "=a"(result)
		     : "a"(number), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
		     : "r8", "r9", "r10", "r11", "memory");
	return result;
}

int main(int argc, char **argv)
{
	long number = atol(argv[1]);

	answer("{}");
	wait_for_line();
	for (long left = atol(argv[2]); left > 0; left--) {
		syscall(number, 0, 0, 0, 0, 0, 0);
		call_i386(number);
	}
	answer("{}");
	wait_for_line();
	return 0;
}
