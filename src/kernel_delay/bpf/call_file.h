/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The open file that a thread sleeps in a call on: its descriptor, and its inode, by which user
 * space sees later whether that descriptor is still of the same.
 */
#ifndef KERNEL_DELAY_CALL_FILE_H
#define KERNEL_DELAY_CALL_FILE_H

#include "target.h"
#include "thread.h"

/* include/uapi/asm-generic/poll.h, the same from 5.14 to 7.2. */
struct pollfd {
	__s32 fd;
	__s16 events;
	__s16 revents;
};

/* What the @descriptor is of, as struct sleep_record has it, by its process's array of @files. */
static __always_inline __u64 file_at(__u64 files, __u32 descriptor)
{
	struct file *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), (struct file **)files + descriptor);
	return BPF_CORE_READ(file, f_inode, i_ino) << 32 | (descriptor + 1);
}

/*
 * The same of the call of that @number. Outside of a call, as of a number that has no slot for
 * flags, nothing is behind it that user space takes for a file. Not static, as take_record().
 */
__noinline __u64 file_of(__u64 files, __u32 descriptor, __u32 number)
{
	if (!options.accounting ||
	    !(options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_HAS_FILE))
		return 0;
	return file_at(files, descriptor);
}

/* The arguments of a poll(2) or ppoll(2): an array, and how many are in it. */
static __always_inline __u64 polled_array(struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;

#if defined(__TARGET_ARCH_x86)
	return call->di;
#elif defined(__TARGET_ARCH_arm64)
	return call->regs[0];
#endif
}

static __always_inline __u64 polled_count(struct pt_regs *regs)
{
	struct pt_regs___syscall *call = (struct pt_regs___syscall *)regs;

#if defined(__TARGET_ARCH_x86)
	return call->si;
#elif defined(__TARGET_ARCH_arm64)
	return call->regs[1];
#endif
}

/*
 * @thread, the current one, enters a poll of the files of @polled, an array: which is it, if it is
 * one? It sleeps on no descriptor that is not open. Not static, as take_record().
 */
__noinline int note_polled(struct thread *thread, __u64 polled, __u64 count, __u64 files)
{
	struct pollfd only;

	if (!thread)
		return 0;
	thread->polled_file = 0;
	if (count == 1 && !bpf_probe_read_user(&only, sizeof(only), (void *)polled) && only.fd >= 0)
		thread->polled_file = file_at(files, only.fd);
	return 0;
}

/* The same of the call that it enters, of those @flags. */
static __always_inline void note_polled_file(struct thread *thread, __u8 flags,
					     struct pt_regs *regs)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (options.accounting && flags & SYSCALL_POLLS_ARRAY)
		note_polled(thread, polled_array(regs), polled_count(regs),
			    (__u64)BPF_CORE_READ(task->files->fdt, fd));
}

/*
 * What @task, which sleeps, sleeps on: of a poll what was noted, unless its entry was missed. The
 * number of a 32-bit call means another one, and its arguments are elsewhere: user space passes
 * over its file.
 */
static __always_inline __u64 sleep_file(const struct thread *thread, struct task_struct *task)
{
	struct pt_regs___syscall *regs;
	__u32 number;

	if (!HAS_TASK_PT_REGS)
		return 0;
	regs = (struct pt_regs___syscall *)bpf_task_pt_regs(task);
	number = syscall_number(regs);
	if (options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_POLLS_ARRAY)
		return thread->mode == MODE_USER ? 0 : thread->polled_file;
	return file_of((__u64)BPF_CORE_READ(task->files->fdt, fd), first_argument(regs), number);
}

#endif
