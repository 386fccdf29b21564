/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be known of the kernel before programs are loaded, see loader/features.py.
 *
 * It is read from the kernel's types where they are, in one pass. libbpf's btf__load_vmlinux_btf()
 * copies them twice and makes a list of them all, which takes ten times as long.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#define KERNEL_TYPES "/sys/kernel/btf/vmlinux"

enum wanted_type {
	HANDLE_MM_FAULT,
	BPF_FUNC_ID,
	SRCU_STRUCT,
	BPF_SUBPROG_INFO,
	PCPU_HOT,
	PER_CPU_SECTION,
	RUNQUEUES,
	PREEMPT_COUNT,
	PCPU_HOT_VARIABLE,
	N_WANTED,
};

static const struct {
	const char *name;
	uint16_t kind;
} wanted[] = {
	[HANDLE_MM_FAULT] = {"handle_mm_fault", BTF_KIND_FUNC},
	[BPF_FUNC_ID] = {"bpf_func_id", BTF_KIND_ENUM},
	[SRCU_STRUCT] = {"srcu_struct", BTF_KIND_STRUCT},
	[BPF_SUBPROG_INFO] = {"bpf_subprog_info", BTF_KIND_STRUCT},
	[PCPU_HOT] = {"pcpu_hot", BTF_KIND_STRUCT},
	[PER_CPU_SECTION] = {".data..percpu", BTF_KIND_DATASEC},
	[RUNQUEUES] = {"runqueues", BTF_KIND_VAR},
	[PREEMPT_COUNT] = {"__preempt_count", BTF_KIND_VAR},
	[PCPU_HOT_VARIABLE] = {"pcpu_hot", BTF_KIND_VAR},
};

/* BTF (Documentation/bpf/btf.rst, 5.14): types, one behind the other, and names. */
struct kernel_types {
	char *memory;
	size_t size;
	bool is_mapped;
	const char *first, *end;
	const char *names;
	/* Of each that is wanted: it, or NULL, and its number. */
	const struct btf_type *found[N_WANTED];
	uint32_t id[N_WANTED];
};

static int read_whole(int fd, char *memory, size_t size)
{
	ssize_t length;

	for (size_t done = 0; done < size; done += length) {
		length = read(fd, memory + done, size - done);
		if (length < 0)
			return -errno;
		if (!length)
			return -EINVAL;
	}
	return 0;
}

/* Linux maps the file from 6.16 on, commit a539e2a6d51d; a read has a page of it at most. */
static int take_memory(struct kernel_types *types, int fd)
{
	types->memory = mmap(NULL, types->size, PROT_READ, MAP_PRIVATE, fd, 0);
	types->is_mapped = types->memory != MAP_FAILED;
	if (types->is_mapped)
		return 0;
	types->memory = malloc(types->size);
	return types->memory ? read_whole(fd, types->memory, types->size) : -ENOMEM;
}

static void close_types(struct kernel_types *types)
{
	if (types->is_mapped)
		munmap(types->memory, types->size);
	else
		free(types->memory);
}

/* The bytes of a type with all that belongs to it; 0 if its kind is not known. */
static size_t type_bytes(const struct btf_type *type)
{
	static const struct {
		bool is_known;
		uint8_t fixed, each;
	} kinds[] = {
		[BTF_KIND_INT] = {true, sizeof(uint32_t), 0},
		[BTF_KIND_PTR] = {true, 0, 0},
		[BTF_KIND_ARRAY] = {true, sizeof(struct btf_array), 0},
		[BTF_KIND_STRUCT] = {true, 0, sizeof(struct btf_member)},
		[BTF_KIND_UNION] = {true, 0, sizeof(struct btf_member)},
		[BTF_KIND_ENUM] = {true, 0, sizeof(struct btf_enum)},
		[BTF_KIND_FWD] = {true, 0, 0},
		[BTF_KIND_TYPEDEF] = {true, 0, 0},
		[BTF_KIND_VOLATILE] = {true, 0, 0},
		[BTF_KIND_CONST] = {true, 0, 0},
		[BTF_KIND_RESTRICT] = {true, 0, 0},
		[BTF_KIND_FUNC] = {true, 0, 0},
		[BTF_KIND_FUNC_PROTO] = {true, 0, sizeof(struct btf_param)},
		[BTF_KIND_VAR] = {true, sizeof(struct btf_var), 0},
		[BTF_KIND_DATASEC] = {true, 0, sizeof(struct btf_var_secinfo)},
		[BTF_KIND_FLOAT] = {true, 0, 0},
		[BTF_KIND_DECL_TAG] = {true, sizeof(struct btf_decl_tag), 0},
		[BTF_KIND_TYPE_TAG] = {true, 0, 0},
		[BTF_KIND_ENUM64] = {true, 0, 3 * sizeof(uint32_t)},
	};
	uint16_t kind = btf_kind(type);

	if (kind >= sizeof(kinds) / sizeof(*kinds) || !kinds[kind].is_known)
		return 0;
	return sizeof(*type) + kinds[kind].fixed + kinds[kind].each * btf_vlen(type);
}

/* The type behind another; NULL behind the last, and behind one of a kind that is not known. */
static const struct btf_type *next_type(const struct kernel_types *types,
					const struct btf_type *type)
{
	const char *next = (const char *)type + type_bytes(type);

	return next > (const char *)type && next < types->end ? (const void *)next : NULL;
}

static const char *name_of(const struct kernel_types *types, uint32_t offset)
{
	return types->names + offset;
}

static void find_wanted(struct kernel_types *types)
{
	const struct btf_type *type = (const void *)types->first;

	for (uint32_t id = 1; type; id++, type = next_type(types, type)) {
		const char *name = name_of(types, type->name_off);
		uint16_t kind = btf_kind(type);

		for (int i = 0; i < N_WANTED; i++)
			if (kind == wanted[i].kind && *name == *wanted[i].name &&
			    !types->found[i] && !strcmp(name, wanted[i].name)) {
				types->found[i] = type;
				types->id[i] = id;
			}
	}
}

static int find_sections(struct kernel_types *types)
{
	const struct btf_header *header = (const void *)types->memory;
	const char *sections = types->memory + header->hdr_len;

	if (types->size < sizeof(*header) || header->magic != BTF_MAGIC)
		return -EINVAL;
	types->first = sections + header->type_off;
	types->end = types->first + header->type_len;
	types->names = sections + header->str_off;
	return 0;
}

static int open_types(struct kernel_types *types)
{
	int fd = open(KERNEL_TYPES, O_RDONLY | O_CLOEXEC), result;
	struct stat status;

	memset(types, 0, sizeof(*types));
	if (fd < 0)
		return -errno;
	result = fstat(fd, &status) ? -errno : 0;
	types->size = status.st_size;
	if (!result)
		result = take_memory(types, fd);
	close(fd);
	if (!result)
		result = find_sections(types);
	if (result)
		close_types(types);
	return result;
}

static const struct btf_type *type_by_id(const struct kernel_types *types, uint32_t id)
{
	const struct btf_type *type = id ? (const void *)types->first : NULL;

	for (uint32_t i = 1; type && i < id; i++)
		type = next_type(types, type);
	return type;
}

/* Where the kernel's own per-CPU variable is in each CPU's area, or -1. */
static int64_t per_cpu_offset(const struct kernel_types *types, enum wanted_type variable)
{
	const struct btf_type *section = types->found[PER_CPU_SECTION];

	if (!section || !types->found[variable])
		return -1;
	for (uint32_t i = 0; i < btf_vlen(section); i++)
		if (btf_var_secinfos(section)[i].type == types->id[variable])
			return btf_var_secinfos(section)[i].offset;
	return -1;
}

/* How far the variable is behind the run queues, on every CPU; 0 where the kernel has not both. */
static int64_t behind_run_queues(const struct kernel_types *types, enum wanted_type variable)
{
	int64_t run_queues = per_cpu_offset(types, RUNQUEUES);
	int64_t offset = per_cpu_offset(types, variable);

	return run_queues < 0 || offset < 0 ? 0 : offset - run_queues;
}

/* Where in a struct or union a member is, also in those without a name within; -1: nowhere. */
static int64_t member_offset(const struct kernel_types *types, const struct btf_type *type,
			     const char *name)
{
	for (uint32_t i = 0; type && btf_is_composite(type) && i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		const char *member_name = name_of(types, member->name_off);
		int64_t within = strcmp(member_name, name) ? -1 : 0;

		if (!*member_name)
			within = member_offset(types, type_by_id(types, member->type), name);
		if (within >= 0)
			return btf_member_bit_offset(type, i) / 8 + within;
	}
	return -1;
}

static bool has_member(const struct kernel_types *types, enum wanted_type type, const char *name)
{
	return member_offset(types, types->found[type], name) >= 0;
}

/*
 * How far a CPU's count of contexts is behind its run queue: a variable of its own, and from 6.2,
 * commit 64701838bf05, to 6.14 in one with others. 0: not known.
 */
static int64_t contexts_distance(const struct kernel_types *types)
{
	int64_t alone = behind_run_queues(types, PREEMPT_COUNT);
	int64_t others = behind_run_queues(types, PCPU_HOT_VARIABLE);
	int64_t within = member_offset(types, types->found[PCPU_HOT], "preempt_count");

	if (alone)
		return alone;
	return others && within >= 0 ? others + within : 0;
}

static bool has_value(const struct kernel_types *types, enum wanted_type enumeration,
		      const char *name)
{
	const struct btf_type *type = types->found[enumeration];

	for (uint32_t i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(name_of(types, btf_enum(type)[i].name_off), name))
			return true;
	return false;
}

/* Loads a program for the entry of @function. Returns why the kernel does not take it, or 0. */
static int try_fentry(const struct kernel_types *types, enum wanted_type function)
{
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = types->id[function]);
	int fd;

	if (!types->found[function])
		return ENOENT;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "nothing", "GPL", nothing, 2, &options);
	if (fd < 0)
		return -fd;
	close(fd);
	return 0;
}

struct kernel_features {
	bool sees_faults;
	bool reads_other_processes;
	bool preempts_tracepoints;
	bool calls_unpreempted;
	bool knows_earlier_calls;
	bool loops;
	int64_t contexts_distance;
	int faults_errno;
};

/* Returns a negative errno where the kernel's types can't be read. */
static int read_kernel_features(struct kernel_features *features)
{
	struct kernel_types types;
	int result = open_types(&types);

	memset(features, 0, sizeof(*features));
	if (result)
		return result;
	find_wanted(&types);
	features->faults_errno = try_fentry(&types, HANDLE_MM_FAULT);
	features->sees_faults = !features->faults_errno;
	features->reads_other_processes =
		has_value(&types, BPF_FUNC_ID, "BPF_FUNC_copy_from_user_task");
	features->preempts_tracepoints = has_member(&types, SRCU_STRUCT, "srcu_reader_flavor");
	features->calls_unpreempted = has_member(&types, BPF_SUBPROG_INFO, "might_sleep");
	features->knows_earlier_calls = has_value(&types, BPF_FUNC_ID, "BPF_FUNC_task_pt_regs");
	features->loops = has_value(&types, BPF_FUNC_ID, "BPF_FUNC_loop");
	features->contexts_distance = contexts_distance(&types);
	close_types(&types);
	return 0;
}

/*
 * Notes in @found which of the @names are functions of the kernel: so many, one behind the other,
 * that begin with the same character. As above.
 */
static int find_functions(const char *names, size_t count, uint8_t *found)
{
	struct kernel_types types;
	int result = open_types(&types);

	if (result)
		return result;
	for (const struct btf_type *type = (const void *)types.first; type;
	     type = next_type(&types, type)) {
		const char *name = name_of(&types, type->name_off), *each = names;

		if (btf_kind(type) != BTF_KIND_FUNC || *name != *names)
			continue;
		for (size_t i = 0; i < count; i++, each += strlen(each) + 1)
			found[i] |= !strcmp(name, each);
	}
	close_types(&types);
	return 0;
}
