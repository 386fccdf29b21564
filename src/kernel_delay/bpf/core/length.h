/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef KERNEL_DELAY_LENGTH_H
#define KERNEL_DELAY_LENGTH_H

#include "kernel.h"

/*
 * How long it is since @since_ns. On another CPU the clock may be a few nanoseconds
 * behind (kernel/time/timekeeping.c:ktime_get_mono_fast_ns()): then the length is 0.
 * @since_ns may be NEVER_NS.
 *
 * Without a branch, of which the verifier would follow both ways to the program's end. The compiler
 * must not know what the sign stands for.
 */
static __always_inline __u64 length_since(__u64 now_ns, __u64 since_ns)
{
	__u64 length_ns = now_ns - since_ns;
	__u64 is_before = (length_ns | since_ns) >> 63;

	barrier_var(is_before);
	return length_ns & (is_before - 1);
}

/* All bits if @value is @other, and else none: as above, for what else a branch would choose. */
static __always_inline __u64 mask_if_same(__u64 value, __u64 other)
{
	__u64 difference = value ^ other;
	__u64 differs = (difference | (0 - difference)) >> 63;

	barrier_var(differs);
	return differs - 1;
}

#endif
