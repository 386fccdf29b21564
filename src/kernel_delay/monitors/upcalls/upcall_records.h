/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the program that counts upcalls shares with user space; as plain as
 * records.h, as cffi reads it too.
 */
#ifndef KERNEL_DELAY_UPCALL_RECORDS_H
#define KERNEL_DELAY_UPCALL_RECORDS_H

/* Set before the program is loaded, constant to the verifier. */
struct upcall_options {
	__u32 network_inode; /* of the network namespace whose datapaths count */
};

struct upcall_control {
	__u64 lost; /* upcalls that found no room for their counter */
};

/* A counter, a __u64, is of the upcalls of one epoch that ended alike on one CPU. */
struct upcall_counter_key {
	__u64 epoch;
	__u32 cpu;
	__u32 error; /* positive; 0: it was sent */
};

#endif
