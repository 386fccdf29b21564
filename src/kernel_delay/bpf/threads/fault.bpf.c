// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Does this kernel let programs see page faults? If it loads these it does;
 * capture.bpf.c has those that do something, and they need a yes.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("fentry/handle_mm_fault")
int on_fault_entry(void *ctx)
{
	return 0;
}

SEC("fexit/handle_mm_fault")
int on_fault_exit(void *ctx)
{
	return 0;
}
