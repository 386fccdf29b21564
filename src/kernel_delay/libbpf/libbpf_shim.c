/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not a function of libbpf's, or is called by it.
 *
 * libbpf's log callback takes a va_list, which cffi can't declare. The last of
 * the log is kept, since it says why a load was refused.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

static char log_text[64 * 1024];
static size_t log_length;
static int log_shown_level = -1;

static void keep(const char *message, size_t length)
{
	if (length > sizeof(log_text)) {
		message += length - sizeof(log_text);
		length = sizeof(log_text);
	}
	if (log_length + length > sizeof(log_text)) {
		size_t kept = sizeof(log_text) - length;

		memmove(log_text, log_text + log_length - kept, kept);
		log_length = kept;
	}
	memcpy(log_text + log_length, message, length);
	log_length += length;
}

/* A message can be a verifier's whole log, whose end says what it did not like. */
static int print_log(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char *message = NULL;
	int length = vasprintf(&message, format, arguments);

	if (length < 0)
		return length;
	if (level <= LIBBPF_INFO)
		keep(message, length);
	if ((int)level <= log_shown_level)
		fwrite(message, 1, length, stderr);
	free(message);
	return length;
}

/* Keeps the log from now on, and shows what is at most of @shown_level (-1: nothing). */
static void libbpf_log_start(int shown_level)
{
	log_shown_level = shown_level;
	log_length = 0;
	libbpf_set_print(print_log);
}

/* Copies out what was kept, and forgets it. Returns its length. */
static size_t libbpf_log_take(char *text, size_t size)
{
	size_t length = log_length < size ? log_length : size;

	memcpy(text, log_text, length);
	log_length = 0;
	return length;
}

/* An array to put into a map of arrays. Its descriptor, or a negative errno. */
static int create_inner_array(const char *name, uint32_t value_size, uint32_t entries)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE | BPF_F_INNER_MAP);

	return bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), value_size, entries,
			      &options);
}

/* Programs find it there from now on; those that found the one before are over (5.9 and later,
 * kernel/bpf/syscall.c:maybe_wait_bpf_programs()).
 */
static int put_inner_map(int outer_fd, uint32_t place, int inner_fd)
{
	return bpf_map_update_elem(outer_fd, &place, &inner_fd, BPF_ANY);
}

/* A ring buffer whose records say only that there is something to look at. */
static int ignore_notice(void *context, void *data, size_t size)
{
	return 0;
}

static struct ring_buffer *open_notices(int map_fd)
{
	return ring_buffer__new(map_fd, ignore_notice, NULL, NULL);
}

/* A ring buffer whose records are copied out, each behind its length, a batch at a time. */
#define BATCH_SIZE (1 << 20)

struct record_reader {
	struct ring_buffer *ring;
	size_t largest;
	size_t used;
	uint64_t batch[BATCH_SIZE / sizeof(uint64_t)];
};

static size_t room_for(size_t size)
{
	return sizeof(uint64_t) + (size + 7) / 8 * 8;
}

/* Stops the reading when another record may not fit. */
static int copy_record(void *context, void *data, size_t size)
{
	struct record_reader *reader = context;
	uint64_t *slot = reader->batch + reader->used / sizeof(uint64_t);

	slot[0] = size;
	memcpy(slot + 1, data, size);
	reader->used += room_for(size);
	return reader->used + room_for(reader->largest) > sizeof(reader->batch) ? -ENOSPC : 0;
}

static void record_reader_close(struct record_reader *reader)
{
	ring_buffer__free(reader->ring);
	free(reader);
}

/* Reads records of at most @largest bytes. NULL and errno on failure. */
static struct record_reader *record_reader_open(int map_fd, size_t largest)
{
	struct record_reader *reader = malloc(sizeof(*reader));

	if (!reader)
		return NULL;
	reader->largest = largest;
	reader->used = 0;
	reader->ring = ring_buffer__new(map_fd, copy_record, reader, NULL);
	if (reader->ring)
		return reader;
	free(reader);
	return NULL;
}

/*
 * Copies the records that are there, as many as a batch holds. Returns the
 * batch's length in bytes, valid until the next call, or a negative errno.
 */
static int64_t record_reader_take(struct record_reader *reader, const uint64_t **batch)
{
	int result;

	reader->used = 0;
	result = ring_buffer__consume(reader->ring);
	*batch = reader->batch;
	return result < 0 && result != -ENOSPC ? result : (int64_t)reader->used;
}

/*
 * A descriptor of the kernel's tracepoint with that id, to attach a program
 * to. With a program an event of any CPU counts (kernel/trace/trace_event_perf.c:
 * perf_call_bpf_enter()), so one CPU's is enough.
 */
static int open_tracepoint(uint64_t id)
{
	struct perf_event_attr attribute = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attribute),
		.config = id,
	};

	return syscall(SYS_perf_event_open, &attribute, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* A descriptor of a thread's own clock, which ticks @frequency times in a second on a CPU. */
static int open_task_clock(int tid, uint64_t frequency)
{
	struct perf_event_attr attribute = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attribute),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.sample_freq = frequency,
		.freq = 1,
	};

	return syscall(SYS_perf_event_open, &attribute, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* An iterator's link, over the elements of a map. */
static struct bpf_link *attach_map_iterator(const struct bpf_program *program, int map_fd)
{
	union bpf_iter_link_info map = {.map.map_fd = map_fd};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &map, .link_info_len = sizeof(map));

	return bpf_program__attach_iter(program, &options);
}

/* Loading reads megabytes of the kernel's types, which glibc would keep when libbpf frees them. */
int load_object(struct bpf_object *object)
{
	int result = bpf_object__load(object);

#ifdef __GLIBC__
	malloc_trim(0);
#endif
	return result;
}

/* Where the kernel's own per-CPU variable of that name is in each CPU's area, or -1. */
static int64_t per_cpu_offset(const struct btf *btf, const char *name)
{
	int section = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	int variable = btf__find_by_name_kind(btf, name, BTF_KIND_VAR);
	const struct btf_type *type;

	if (section < 0 || variable < 0)
		return -1;
	type = btf__type_by_id(btf, section);
	for (uint32_t i = 0; i < btf_vlen(type); i++)
		if (btf_var_secinfos(type)[i].type == (uint32_t)variable)
			return btf_var_secinfos(type)[i].offset;
	return -1;
}

/* How far the variable @to is behind @from, on every CPU; 0 where the kernel has not both. */
static int64_t per_cpu_distance(const struct btf *btf, const char *from, const char *to)
{
	int64_t from_offset = per_cpu_offset(btf, from), to_offset = per_cpu_offset(btf, to);

	return from_offset < 0 || to_offset < 0 ? 0 : to_offset - from_offset;
}

/* Where in a struct or union a member is, also in those without a name within; -1: nowhere. */
static int64_t member_offset(const struct btf *btf, int32_t id, const char *name)
{
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, id);

	for (uint32_t i = 0; type && btf_is_composite(type) && i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		const char *member_name = btf__name_by_offset(btf, member->name_off);
		int64_t within = strcmp(member_name, name) ? -1 : 0;

		if (!*member_name)
			within = member_offset(btf, member->type, name);
		if (within >= 0)
			return btf_member_bit_offset(type, i) / 8 + within;
	}
	return -1;
}

static int64_t offset_in(const struct btf *btf, const char *structure, const char *name)
{
	return member_offset(btf, btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT), name);
}

static bool has_member(const struct btf *btf, const char *structure, const char *name)
{
	return offset_in(btf, structure, name) >= 0;
}

/*
 * How far a CPU's count of contexts is behind its run queue: a variable of its own, and from 6.2,
 * commit 64701838bf05, to 6.14 in one with others. 0: not known.
 */
static int64_t contexts_distance(const struct btf *btf)
{
	int64_t alone = per_cpu_distance(btf, "runqueues", "__preempt_count");
	int64_t others = per_cpu_distance(btf, "runqueues", "pcpu_hot");
	int64_t within = offset_in(btf, "pcpu_hot", "preempt_count");

	if (alone)
		return alone;
	return others && within >= 0 ? others + within : 0;
}

static bool has_value(const struct btf *btf, const char *enumeration, const char *name)
{
	int id = btf__find_by_name_kind(btf, enumeration, BTF_KIND_ENUM);
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, id);

	for (uint32_t i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), name))
			return true;
	return false;
}

/* Loads a program for the entry of @function. Returns why the kernel does not take it, or 0. */
static int try_fentry(const struct btf *btf, const char *function)
{
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY);
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC), fd;

	if (id < 0)
		return ENOENT;
	options.attach_btf_id = id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "nothing", "GPL", nothing, 2, &options);
	if (fd < 0)
		return -fd;
	close(fd);
	return 0;
}

/* What must be known of the kernel before programs are loaded, see libbpf/features.py. */
struct kernel_features {
	bool sees_faults;
	bool reads_other_processes;
	bool preempts_tracepoints;
	bool calls_unpreempted;
	bool knows_earlier_calls;
	int64_t contexts_distance;
	int faults_errno;
};

/* Reads the kernel's types once for all. Returns a negative errno where they can't be read. */
static int read_kernel_features(struct kernel_features *features)
{
	struct btf *btf = btf__load_vmlinux_btf();

	memset(features, 0, sizeof(*features));
	if (!btf)
		return -errno;
	features->faults_errno = try_fentry(btf, "handle_mm_fault");
	features->sees_faults = !features->faults_errno;
	features->reads_other_processes =
		has_value(btf, "bpf_func_id", "BPF_FUNC_copy_from_user_task");
	features->preempts_tracepoints = has_member(btf, "srcu_struct", "srcu_reader_flavor");
	features->calls_unpreempted = has_member(btf, "bpf_subprog_info", "might_sleep");
	features->knows_earlier_calls = has_value(btf, "bpf_func_id", "BPF_FUNC_task_pt_regs");
	features->contexts_distance = contexts_distance(btf);
	btf__free(btf);
	return 0;
}
