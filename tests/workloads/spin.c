// SPDX-License-Identifier: Apache-2.0
/*
 * spin CPU LENGTH_NS [PATH]: answers, and then runs in its program for that long, or until the
 * file's first byte is not 0, alone in its process, without a system call. Answers again with how
 * long it was at it.
 */
#include "workload.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
	static const volatile char never;
	const volatile char *is_ended = &never;
	int64_t start_ns, end_ns;

	run_on(atoi(argv[1]));
	if (argc > 3) {
		is_ended = mmap(NULL, 1, PROT_READ, MAP_SHARED, open(argv[3], O_RDONLY), 0);
		require(is_ended != MAP_FAILED && !*is_ended, "mmap");
	}
	answer("{}");
	wait_for_line();
	answer("{}");
	start_ns = now_ns();
	end_ns = start_ns + atoll(argv[2]);
	while (!*is_ended && now_ns() < end_ns)
		;
	answer("{\"took_ns\": %lld}", (long long)(now_ns() - start_ns));
	wait_for_line();
	return 0;
}
