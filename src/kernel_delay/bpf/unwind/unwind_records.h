/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The tables that stacks are unwound by in the kernel. User space makes them of call frame
 * information: which rule finds the caller from each instruction on.
 */
#ifndef KERNEL_DELAY_UNWIND_RECORDS_H
#define KERNEL_DELAY_UNWIND_RECORDS_H

/* The call frame address (CFA): what the stack pointer is in the caller. DWARF 5, 6.4.1. */
enum cfa_rule {
	CFA_UNKNOWN, /* the walk ends here, and the stack does not */
	CFA_RSP, /* rsp + cfa_offset */
	CFA_RBP, /* rbp + cfa_offset */
	CFA_AT_RBP, /* what is stored at rbp + cfa_offset: GCC's aligned frames */
	CFA_PLT, /* rsp + 16 from byte cfa_offset of a 16-byte slot on, before it rsp + 8 */
	CFA_FRAME_POINTER, /* there is no rule: rbp + 16, if that looks like a frame pointer */
	CFA_OUTERMOST, /* nothing called this function */
};

/* The caller's rbp. Its return address is always 8 bytes below the CFA. */
enum rbp_rule {
	RBP_SAME,
	RBP_AT_CFA, /* stored at CFA + rbp_offset */
	RBP_AT_RBP, /* stored at rbp + rbp_offset */
	RBP_UNKNOWN,
};

struct unwind_rule {
	__s32 cfa_offset;
	__s16 rbp_offset;
	__u8 cfa; /* enum cfa_rule */
	__u8 rbp; /* enum rbp_rule */
};

/*
 * A table has entries of 4 words: the header, the ranges of code sorted, the rules, and each
 * file's rows sorted. A row has its address in the file above the number of its rule, 32 bits
 * each; it holds up to the next one. The first rule is CFA_UNKNOWN, and the last rows of an entry
 * that have no address have all ones.
 */
#define UNWIND_WORDS 4
#define UNWIND_RANGES 4095

struct unwind_entry {
	__u64 words[UNWIND_WORDS];
};

struct unwind_header {
	__u64 generation; /* of the table, in the bits that no address has */
	__u64 start_stack; /* where the process's stack began, which no other program's does */
	__u64 unused;
	__u32 range_count;
	__u32 first_rule; /* number of an entry */
};

struct unwind_range {
	__u64 start;
	__u64 end;
	__u64 bias; /* from addresses in the file to those in memory */
	__u32 first_row; /* number of an entry */
	__u32 row_entries; /* 0: there are none, and frames are found by their pointers */
};

#endif
