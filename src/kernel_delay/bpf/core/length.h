/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef KERNEL_DELAY_LENGTH_H
#define KERNEL_DELAY_LENGTH_H

#include "kernel.h"

/*
 * How long it is since @since_ns. On another CPU the clock may be a few nanoseconds
 * behind (kernel/time/timekeeping.c:ktime_get_mono_fast_ns()): then the length is 0.
 */
static __always_inline __u64 length_since(__u64 now_ns, __u64 since_ns)
{
	return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif
