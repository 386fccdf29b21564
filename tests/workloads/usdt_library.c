/* The shared library of usdt_target: probes with and without a semaphore. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

__extension__ unsigned short kd_library_with_semaphore_semaphore __attribute__((unused))
__attribute__((section(".probes")));

void usdt_library_work(int round);

/* Another file of this library has a static function of the same name. */
static __attribute__((noinline)) int usdt_same_name(int value)
{
	__asm__ volatile("");
	return value + 1;
}

void usdt_library_work(int round)
{
	DTRACE_PROBE2(kd_library, with_semaphore, usdt_same_name(round), round * 2L);
}
