/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The open file that a thread sleeps in a call on: its descriptor, and its inode, by which user
 * space sees later whether that descriptor is still of the same.
 */
#ifndef KERNEL_DELAY_SLEEP_FILE_H
#define KERNEL_DELAY_SLEEP_FILE_H

#include "syscall_id.h"
#include "thread.h"

/*
 * What the @descriptor of the call of that @number is of, as struct sleep_record has it, by its
 * process's array of @files. Outside of a call, as of a number that has no slot for flags, nothing
 * is behind it that user space takes for a file. Not static, as take_record().
 */
__noinline __u64 file_of(__u64 files, __u32 descriptor, __u32 number)
{
	struct file *file = NULL;

	if (!options.accounting ||
	    !(options.syscall_flags[0][number & (FLAGGED_SYSCALLS - 1)] & SYSCALL_HAS_FILE))
		return 0;
	bpf_probe_read_kernel(&file, sizeof(file), (struct file **)files + descriptor);
	return BPF_CORE_READ(file, f_inode, i_ino) << 32 | (descriptor + 1);
}

/*
 * The same of @task, which sleeps. The number of a 32-bit call means another one, and its
 * arguments are elsewhere: user space passes over its file.
 */
static __always_inline __u64 sleep_file(struct task_struct *task)
{
	struct pt_regs___syscall *regs;

	if (!HAS_TASK_PT_REGS)
		return 0;
	regs = (struct pt_regs___syscall *)bpf_task_pt_regs(task);
	return file_of((__u64)BPF_CORE_READ(task->files->fdt, fd), first_argument(regs),
		       syscall_number(regs));
}

#endif
