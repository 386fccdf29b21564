/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those of the kernel's types that an object's own are compared with, see loader/programs.py.
 *
 * For each type of the object whose fields or values are relocated (CO-RE), libbpf goes through all
 * 130,000 of the kernel's: that is two thirds of what it does until the programs are loaded. So it
 * gets a few hundred: those of the same name, and what is within them. What they point to is of no
 * type there, as libbpf compares pointers without it (bpf_core_fields_are_compat(), libbpf 1.1 to
 * 1.6). It takes the kernel's own types, by their numbers, where programs are attached.
 */
#include <bpf/libbpf.h>
#include <stdio.h>
#include <sys/syscall.h>

/* What the object calls its types, by a hash; twice as many places as there are types. */
struct type_names {
	const char **places;
	uint32_t mask;
};

struct core_types {
	const struct kernel_types *kernel;
	uint32_t count;
	/* Of each of the kernel's types: where it is behind the first, and its number here, or 0.
	 */
	uint32_t *offsets, *numbers;
	/* The types that are here, in the order of their numbers, from 1 on. */
	uint32_t *chosen;
	uint32_t n_chosen;
	FILE *out, *names;
};

/* Up to ___, behind which the object says which kernels have it so. */
static size_t name_length(const char *name)
{
	const char *flavor = strstr(name, "___");

	return flavor && flavor != name ? (size_t)(flavor - name) : strlen(name);
}

static const char **place_of(const struct type_names *names, const char *name, size_t length)
{
	uint32_t hash = 2166136261; /* FNV-1a */
	const char **place;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619;
	do
		place = &names->places[hash++ & names->mask];
	while (*place && (name_length(*place) != length || memcmp(*place, name, length)));
	return place;
}

static bool is_compared(const struct btf_type *type)
{
	return btf_is_composite(type) || btf_is_any_enum(type);
}

static int note_names(struct type_names *names, const struct btf *own)
{
	uint32_t count = btf__type_cnt(own), places = 1;

	while (places < 2 * count)
		places *= 2;
	names->mask = places - 1;
	names->places = calloc(places, sizeof(*names->places));
	if (!names->places)
		return -ENOMEM;
	for (uint32_t id = 1; id < count; id++) {
		const struct btf_type *type = btf__type_by_id(own, id);
		const char *name = btf__name_by_offset(own, type->name_off);

		if (is_compared(type) && *name)
			*place_of(names, name, name_length(name)) = name;
	}
	return 0;
}

/* The number here of one of the kernel's types, which is here from now on. */
static uint32_t number_of(struct core_types *core, uint32_t id)
{
	if (!id || id >= core->count)
		return 0;
	if (!core->numbers[id]) {
		core->chosen[core->n_chosen] = id;
		core->numbers[id] = ++core->n_chosen;
	}
	return core->numbers[id];
}

static uint32_t add_name(struct core_types *core, uint32_t offset)
{
	const char *name = name_of(core->kernel, offset);
	long at = ftell(core->names);

	if (!*name)
		return 0;
	fwrite(name, 1, strlen(name) + 1, core->names);
	return at;
}

static void write_members(struct core_types *core, const struct btf_type *type)
{
	for (uint32_t i = 0; i < btf_vlen(type); i++) {
		struct btf_member member = btf_members(type)[i];

		member.name_off = add_name(core, member.name_off);
		member.type = number_of(core, member.type);
		fwrite(&member, sizeof(member), 1, core->out);
	}
}

/* Each begins with its name, in 12 bytes where values have 64 bits. */
static void write_values(struct core_types *core, const struct btf_type *type, size_t each)
{
	const char *value = (const char *)(type + 1);

	for (uint32_t i = 0; i < btf_vlen(type); i++, value += each) {
		uint32_t name = add_name(core, *(const uint32_t *)value);

		fwrite(&name, sizeof(name), 1, core->out);
		fwrite(value + sizeof(name), each - sizeof(name), 1, core->out);
	}
}

static void write_type(struct core_types *core, const struct btf_type *type)
{
	struct btf_type head = *type;
	size_t rest = type_bytes(type) - sizeof(*type);
	struct btf_array array;

	head.name_off = add_name(core, type->name_off);
	if (btf_is_ptr(type))
		head.type = 0;
	else if (btf_is_mod(type) || btf_is_typedef(type))
		head.type = number_of(core, type->type);
	fwrite(&head, sizeof(head), 1, core->out);
	if (btf_is_composite(type)) {
		write_members(core, type);
	} else if (btf_is_any_enum(type)) {
		write_values(core, type, rest / (btf_vlen(type) ?: 1));
	} else if (btf_is_array(type)) {
		array = *btf_array(type);
		array.type = number_of(core, array.type);
		array.index_type = number_of(core, array.index_type);
		fwrite(&array, sizeof(array), 1, core->out);
	} else {
		fwrite(type + 1, rest, 1, core->out);
	}
}

static void write_types(struct core_types *core, const struct type_names *compared)
{
	const struct btf_type *type = (const void *)core->kernel->first;

	for (uint32_t id = 1; type && id < core->count;
	     id++, type = next_type(core->kernel, type)) {
		const char *name = name_of(core->kernel, type->name_off);

		core->offsets[id] = (const char *)type - core->kernel->first;
		if (is_compared(type) && *name && *place_of(compared, name, name_length(name)))
			number_of(core, id);
	}
	fputc('\0', core->names);
	for (uint32_t i = 0; i < core->n_chosen; i++)
		write_type(core,
			   (const void *)(core->kernel->first + core->offsets[core->chosen[i]]));
}

/* Returns 0 or a negative errno. */
static int write_whole(int fd, const void *memory, size_t size)
{
	ssize_t length;

	for (; size; memory = (const char *)memory + length, size -= length) {
		length = write(fd, memory, size);
		if (length < 0 && errno != EINTR)
			return -errno;
		if (length < 0)
			length = 0;
	}
	return 0;
}

/* Writes them to an empty file. Returns 0 or a negative errno. */
static int write_core_types(const struct bpf_object *object, int fd)
{
	struct btf_header header = {.magic = BTF_MAGIC, .version = 1, .hdr_len = sizeof(header)};
	struct type_names compared = {};
	struct core_types core = {};
	char *out = NULL, *names = NULL;
	size_t out_size = 0, names_size = 0;
	struct kernel_types kernel;
	int result = open_types(&kernel);

	if (result)
		return result;
	core.kernel = &kernel;
	/* Each type has at least its head. */
	core.count = (kernel.end - kernel.first) / sizeof(struct btf_type) + 1;
	core.offsets = calloc(core.count, sizeof(*core.offsets));
	core.numbers = calloc(core.count, sizeof(*core.numbers));
	core.chosen = calloc(core.count, sizeof(*core.chosen));
	core.out = open_memstream(&out, &out_size);
	core.names = open_memstream(&names, &names_size);
	result = -ENOMEM;
	if (core.offsets && core.numbers && core.chosen && core.out && core.names)
		result = note_names(&compared, bpf_object__btf(object));
	if (!result)
		write_types(&core, &compared);
	if (core.out && fclose(core.out))
		result = -ENOMEM;
	if (core.names && fclose(core.names))
		result = -ENOMEM;
	header.type_len = header.str_off = out_size;
	header.str_len = names_size;
	if (!result)
		result = write_whole(fd, &header, sizeof(header));
	if (!result)
		result = write_whole(fd, out, out_size);
	if (!result)
		result = write_whole(fd, names, names_size);
	free(out);
	free(names);
	free(compared.places);
	free(core.offsets);
	free(core.numbers);
	free(core.chosen);
	close_types(&kernel);
	return result;
}
