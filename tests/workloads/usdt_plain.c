/* A probe whose note has no semaphore, and no -D that gives it one. */
#include <sys/sdt.h>

int usdt_plain(int value);

static __attribute__((noinline)) int usdt_same_name(int value)
{
	__asm__ volatile("");
	return value - 1;
}

int usdt_plain(int value)
{
	STAP_PROBE1(kd_plain, no_semaphore, value);
	return usdt_same_name(value);
}
