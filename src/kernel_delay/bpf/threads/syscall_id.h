/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Which system call a task makes: a number means another call in each of the
 * ABIs that a kernel serves side by side, so a call is known by both.
 */
#ifndef KERNEL_DELAY_SYSCALL_ID_H
#define KERNEL_DELAY_SYSCALL_ID_H

#include "window.h"

#if defined(__TARGET_ARCH_x86)
/* arch/x86/include/asm/thread_info.h, the same from 5.14 to 6.18: set from entry to exit. */
#define TS_COMPAT 0x0002
/* arch/x86/include/uapi/asm/unistd.h: x32 calls have it in their numbers. */
#define X32_SYSCALL_BIT 0x40000000
#elif defined(__TARGET_ARCH_arm64)
/* arch/arm64/include/asm/thread_info.h, the same from 5.14 to 6.18: set while a program is 32-bit.
 */
#define TIF_32BIT 22
#define X32_SYSCALL_BIT 0
#endif

/* Does @task make 32-bit calls, or is it in one? As in_compat_syscall(), but without x32. */
static __always_inline bool in_compat(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return bpf_core_field_exists(task->thread_info.status) &&
	       task->thread_info.status & TS_COMPAT;
#elif defined(__TARGET_ARCH_arm64)
	return task->thread_info.flags >> TIF_32BIT & 1;
#endif
}

/* The call of that @number which @task makes, as the records have it. */
static __always_inline __u64 syscall_id(struct task_struct *task, __u32 number)
{
	return in_compat(task) ? COMPAT_SYSCALL | number : number;
}

/* The number that @task came into the kernel with, negative unless for a syscall. */
static __always_inline __s32 syscall_number(struct pt_regs___syscall *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#elif defined(__TARGET_ARCH_arm64)
	return regs->syscallno;
#endif
}

static __always_inline __u32 first_argument(const struct pt_regs___syscall *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#elif defined(__TARGET_ARCH_arm64)
	return regs->regs[0];
#endif
}

/* The enum syscall_flag of a call; none if its number has no slot. */
static __always_inline __u8 syscall_flags(__u64 syscall)
{
	bool compat = syscall & COMPAT_SYSCALL;
	__u32 number = syscall;

	if (!compat)
		number &= ~X32_SYSCALL_BIT;
	if (number >= FLAGGED_SYSCALLS)
		return 0;
	/* Old verifiers forget the test for a copy; the compiler must not leave out the mask. */
	barrier_var(number);
	return options.syscall_flags[compat][number & (FLAGGED_SYSCALLS - 1)];
}

/* Which of all slots of both tables is the call's, if it has one. */
static __always_inline __u32 syscall_slot(__u64 syscall)
{
	bool compat = syscall & COMPAT_SYSCALL;
	__u32 number = syscall;

	if (!compat)
		number &= ~X32_SYSCALL_BIT;
	return compat * FLAGGED_SYSCALLS + (number & (FLAGGED_SYSCALLS - 1));
}

/* Has the call a slot for flags? */
static __always_inline bool is_flagged(__u64 syscall)
{
	__u32 number = syscall;

	return (syscall & COMPAT_SYSCALL ? number : number & ~X32_SYSCALL_BIT) < FLAGGED_SYSCALLS;
}

#endif
