/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where a new record goes: behind the newest of its ring, or where the record
 * of a thread that ended was. capture/threads/ is the other side.
 */
#ifndef KERNEL_DELAY_RECORD_RING_H
#define KERNEL_DELAY_RECORD_RING_H

#include "window.h"

/* Wakes user space, which finds what happened in struct control. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} notices SEC(".maps");

static __always_inline void notify(void)
{
	__u64 notice = 0;

	/* If it is full, user space has not yet read that it is to look. */
	bpf_ringbuf_output(&notices, &notice, sizeof(notice), 0);
}

/* User space writes these, and sets the size: options.freed_slots of each ring. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} freed_slots SEC(".maps");

/* A number for what is the @taken-th of a list, and ends in that of its slot. */
#define FREED_NUMBER(taken, slot) (1ULL << 63 | ((taken)&0x7fffffff) << 32 | (slot))

static const volatile struct thread_record zeros SEC(".rodata.zeros");

/* A record is too large for memset(): the verifier would follow each word that is written. */
static __always_inline void clear(void *record, __u32 size)
{
	bpf_probe_read_kernel(record, size, (const void *)&zeros);
}

/* How often it is tried to be the one that takes the next slot. */
#define TRIES_TO_TAKE 2

static __always_inline __u64 take_freed(struct ring_position *ring, __u32 index, __u64 epoch)
{
	__u64 taken, *slot, freed;
	__u32 key;

	/* With rounds the slots are for any. */
	if (!options.rounds && *(volatile __u64 *)&ring->freed_epoch != epoch)
		return 0;
	for (int i = 0; i < TRIES_TO_TAKE; i++) {
		taken = *(volatile __u64 *)&ring->freed_taken;
		if (taken >= *(volatile __u64 *)&ring->freed)
			return 0;
		key = index * options.freed_slots + (taken & (options.freed_slots - 1));
		slot = bpf_map_lookup_elem(&freed_slots, &key);
		if (!slot)
			return 0;
		/* Read before it is taken: after that user space may write another one there. */
		freed = *(volatile __u64 *)slot;
		if (__sync_val_compare_and_swap(&ring->freed_taken, taken, taken + 1) != taken)
			continue;
		if (taken + 1 == ring->notice_freed)
			notify();
		return FREED_NUMBER(taken, freed);
	}
	return 0;
}

/*
 * The number of a new record of @epoch in the ring of that @index and @size, or
 * 0 when user space has to read first. Not static, so that it is verified once, by itself, and
 * not on each way to it.
 */
__noinline __u64 take_record(__u32 index, __u32 size, __u64 epoch)
{
	struct ring_position *ring = &control.rings[index & (RING_SLOTS - 1)];
	__u64 number;

	number = take_freed(ring, index & (RING_SLOTS - 1), epoch);
	if (number)
		return number;
	if (*(volatile __u64 *)&ring->head - ring->tail >= size)
		goto full;
	number = __sync_fetch_and_add(&ring->head, 1) + 1;
	if (number == ring->notice_head)
		notify();
	/* Programs on other CPUs may have taken the last slots since the test. */
	if (number - ring->tail <= size)
		return number;
full:
	count_up(&ring->full);
	return 0;
}

#endif
