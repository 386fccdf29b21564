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
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
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

/* A link to the entries of functions of the kernel: of so many @names, one behind the other. */
static struct bpf_link *attach_functions(const struct bpf_program *program, const char *names,
					 size_t count)
{
	const char **functions = calloc(count, sizeof(*functions));
	LIBBPF_OPTS(bpf_kprobe_multi_opts, options, .syms = functions, .cnt = count);
	struct bpf_link *link = NULL;

	if (!functions)
		return NULL;
	for (size_t i = 0; i < count; i++, names += strlen(names) + 1)
		functions[i] = names;
	link = bpf_program__attach_kprobe_multi_opts(program, NULL, &options);
	free(functions);
	return link;
}

/* An iterator's link, over the elements of a map. */
static struct bpf_link *attach_map_iterator(const struct bpf_program *program, int map_fd)
{
	union bpf_iter_link_info map = {.map.map_fd = map_fd};
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &map, .link_info_len = sizeof(map));

	return bpf_program__attach_iter(program, &options);
}

#ifdef __GLIBC__
/* libbpf takes 5.5 MB for the kernel's types, twice at a time, and more for a list of them. */
#define LOAD_BYTES (13 << 20)

/*
 * Has glibc take what it is asked for next from huge pages, where the kernel has these for who
 * asks: the types take 3,000 page faults otherwise, which is half of the time that it takes to read
 * them.
 */
static void use_huge_pages(void)
{
	uintptr_t page = sysconf(_SC_PAGESIZE), begin;
	/* Or the compiler would leave out the first. */
	void *(*volatile allocate)(size_t size) = malloc;
	char *memory;

	/* What is freed once is from then on no mapping of its own, but of the heap. */
	free(allocate(LOAD_BYTES));
	memory = allocate(LOAD_BYTES);
	if (!memory)
		return;
	begin = ((uintptr_t)memory + page - 1) & -page;
	madvise((void *)begin, (uintptr_t)memory + LOAD_BYTES - begin, MADV_HUGEPAGE);
	free(memory);
}
#endif

/* With an empty file at @types_fd what is relocated is compared with core_types.c's alone. */
static struct bpf_object *open_object(const char *path, int types_fd)
{
	char types[32];
	LIBBPF_OPTS(bpf_object_open_opts, options);

	snprintf(types, sizeof(types), "/proc/self/fd/%d", types_fd);
	if (types_fd >= 0)
		options.btf_custom_path = types;
	return bpf_object__open_file(path, &options);
}

static int load_object(struct bpf_object *object, int types_fd)
{
	int result = types_fd < 0 ? 0 : write_core_types(object, types_fd);

	if (result)
		return result;
#ifdef __GLIBC__
	use_huge_pages();
#endif
	result = bpf_object__load(object);
#ifdef __GLIBC__
	/* It would keep what libbpf has freed. */
	malloc_trim(0);
#endif
	return result;
}

struct loading {
	struct bpf_object *object;
	int types_fd;
	int result;
	bool has_thread;
	pthread_t thread;
};

static void *load_in_thread(void *argument)
{
	struct loading *loading = argument;

	loading->result = load_object(loading->object, loading->types_fd);
	return NULL;
}

/* Loads an object in a thread, if there can be one. */
static void begin_loading(struct loading *loading, struct bpf_object *object, int types_fd)
{
	*loading = (struct loading){.object = object, .types_fd = types_fd};
	loading->has_thread = !pthread_create(&loading->thread, NULL, load_in_thread, loading);
	if (!loading->has_thread)
		load_in_thread(loading);
}

/* Waits until it is loaded. Returns 0 or a negative errno. */
static int end_loading(struct loading *loading)
{
	if (loading->has_thread)
		pthread_join(loading->thread, NULL);
	return loading->result;
}
