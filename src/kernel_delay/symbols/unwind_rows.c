// SPDX-License-Identifier: Apache-2.0
/* Rows for the kernel, of a file's .eh_frame: what libdw would say of each instruction. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What a file may cost, in bytes of programs that are gone through: a CIE's counts again for each
 * of its functions that does not follow another of its.
 */
#define ROWS_WORK (256u << 20)
#define ENTRY_WORK 128
#define EH_FRAME_SIZE_MAX (64u << 20)

/* A function's rows, before all are sorted. */
struct function_rows {
	uint64_t start;
	uint64_t end;
	size_t first;
	size_t count;
};

struct rows_builder {
	const struct eh_frame *eh;
	struct unwind_rows *out;
	size_t room;
	struct function_rows *functions;
	size_t n_functions;
	size_t functions_room;
	uint32_t *buckets; /* of rules: index plus one, open addressing */
	uint64_t work;

	/* The CIE that was read last. */
	Dwarf_Off cie;
	struct frame_state initial;
	uint64_t code_alignment;
	int64_t data_alignment;
	uint8_t encoding;
	bool has_augmentation;
	bool is_usable;
};

#define RULE_BUCKETS (2 * UNWIND_RULES_MAX)

/* The rule's number; false if there are too many. */
static bool rule_number(struct rows_builder *builder, const struct unwind_rule *rule,
			uint32_t *found)
{
	struct unwind_rows *out = builder->out;
	uint64_t word;
	size_t bucket;

	memcpy(&word, rule, sizeof(word));
	bucket = (word * 0x9e3779b97f4a7c15ULL >> 32) % RULE_BUCKETS;
	for (; builder->buckets[bucket]; bucket = (bucket + 1) % RULE_BUCKETS) {
		*found = builder->buckets[bucket] - 1;
		if (out->rules[*found] == word)
			return true;
	}
	if (out->n_rules == UNWIND_RULES_MAX)
		return false;
	*found = out->n_rules++;
	out->rules[*found] = word;
	builder->buckets[bucket] = *found + 1;
	return true;
}

static bool add_row(struct rows_builder *builder, uint64_t address, const struct unwind_rule *rule)
{
	struct function_rows *function = &builder->functions[builder->n_functions];
	struct unwind_rows *out = builder->out;
	uint64_t *last = function->count ? &out->rows[out->n_rows - 1] : NULL;
	uint32_t number;

	if (!rule_number(builder, rule, &number))
		return false;
	if (last && *last >> 32 == address) {
		*last = address << 32 | number;
		return true;
	}
	if (last && (uint32_t)*last == number)
		return true;
	if (out->n_rows == builder->room) {
		size_t room = builder->room ? 2 * builder->room : 4096;
		uint64_t *rows;

		if (builder->room >= UNWIND_ROWS_MAX)
			return false;
		rows = realloc(out->rows, room * sizeof(*rows));
		if (!rows)
			return false;
		out->rows = rows;
		builder->room = room;
	}
	out->rows[out->n_rows++] = address << 32 | number;
	function->count++;
	return true;
}

/* Notes what holds up to here, and goes on by so much code; false if there is no room. */
static bool advance(struct rows_builder *builder, struct cfa_program *program, uint64_t delta)
{
	struct unwind_rule rule = rule_of(&program->state);

	if (!delta)
		return true;
	if (!add_row(builder, *program->address, &rule))
		return false;
	*program->address += delta * builder->code_alignment;
	return true;
}

/* The same of a function's. */
static bool do_function_instruction(struct rows_builder *builder, struct cfa_program *program,
				    uint8_t opcode)
{
	uint64_t value;

	switch (opcode & 0xc0) {
	case DW_CFA_advance_loc:
		return advance(builder, program, opcode & 0x3f);
	case DW_CFA_restore:
		restore(&program->state, &builder->initial, opcode & 0x3f);
		return true;
	}
	switch (opcode) {
	case DW_CFA_advance_loc1:
		return take_number(&program->code, 1, &value) && advance(builder, program, value);
	case DW_CFA_advance_loc2:
		return take_number(&program->code, 2, &value) && advance(builder, program, value);
	case DW_CFA_advance_loc4:
		return take_number(&program->code, 4, &value) && advance(builder, program, value);
	case DW_CFA_restore_extended:
		if (!take_uleb128(&program->code, &value))
			return false;
		restore(&program->state, &builder->initial, value);
		return true;
	case DW_CFA_remember_state:
		if (program->n_remembered == STATES_MAX)
			return false;
		program->remembered[program->n_remembered++] = program->state;
		return true;
	case DW_CFA_restore_state:
		if (!program->n_remembered)
			return false;
		program->state = program->remembered[--program->n_remembered];
		return true;
	default:
		return do_instruction(program, opcode);
	}
}

/* Whether all of the program is known. */
static bool run(struct rows_builder *builder, struct cfa_program *program, uint64_t end)
{
	builder->work += program->code.end - program->code.at;
	while (program->code.at < program->code.end) {
		uint8_t opcode = *program->code.at++;

		if (program->address ? !do_function_instruction(builder, program, opcode)
				     : !do_instruction(program, opcode))
			return false;
		if (program->address && *program->address >= end)
			return true;
	}
	return true;
}

static bool read_cie(struct rows_builder *builder, Dwarf_Off offset)
{
	const struct eh_frame *eh = builder->eh;
	struct cfa_program program = {.state = {.cfa_register = UINT64_MAX}};
	Dwarf_CFI_Entry entry;
	Dwarf_Off next = offset;

	builder->cie = offset;
	builder->is_usable = false;
	if (dwarf_next_cfi(eh->ident, eh->data, true, offset, &next, &entry) ||
	    !dwarf_cfi_cie_p(&entry))
		return false;
	if (!read_augmentation(eh, &entry.cie, &builder->encoding)) {
		builder->encoding = DW_EH_PE_omit; /* which functions it is of is not known */
		return true;
	}
	if (entry.cie.return_address_register != X86_64_RIP)
		return true;
	builder->has_augmentation = *entry.cie.augmentation;
	builder->code_alignment = entry.cie.code_alignment_factor;
	builder->data_alignment = entry.cie.data_alignment_factor;
	program.data_alignment = builder->data_alignment;
	program.code =
		(struct cursor){entry.cie.initial_instructions, entry.cie.initial_instructions_end};
	builder->is_usable = run(builder, &program, 0);
	builder->initial = program.state;
	return true;
}

/* A function that can't be followed has one row, which says so. */
static bool add_function(struct rows_builder *builder, const Dwarf_FDE *fde)
{
	struct cfa_program program = {.code = {fde->start, fde->end}};
	struct function_rows *function;
	uint64_t start, length, end, address;
	struct unwind_rule rule;

	if (fde->CIE_pointer != builder->cie && !read_cie(builder, fde->CIE_pointer))
		return true;
	if (!take_address(builder->eh, &program.code, builder->encoding, &start) ||
	    !take_address(builder->eh, &program.code, builder->encoding & 0x0f, &length))
		return false;
	end = start + length;
	if (end <= start)
		return true;
	if (end > UINT32_MAX)
		return false;
	if (builder->n_functions == builder->functions_room) {
		size_t room = builder->functions_room ? 2 * builder->functions_room : 1024;
		struct function_rows *functions =
			realloc(builder->functions, room * sizeof(*functions));

		if (!functions)
			return false;
		builder->functions = functions;
		builder->functions_room = room;
	}
	function = &builder->functions[builder->n_functions];
	*function = (struct function_rows){start, end, builder->out->n_rows};
	address = start;
	program.address = &address;
	program.state = builder->initial;
	program.data_alignment = builder->data_alignment;
	if (builder->is_usable &&
	    (!builder->has_augmentation ||
	     (take_uleb128(&program.code, &length) && take(&program.code, length))) &&
	    run(builder, &program, end)) {
		rule = rule_of(&program.state);
		if (address < end && !add_row(builder, address, &rule))
			return false;
	} else {
		builder->out->n_rows = function->first;
		function->count = 0;
		rule = (struct unwind_rule){};
		if (!add_row(builder, start, &rule))
			return false;
	}
	builder->n_functions++;
	return true;
}

static bool add_functions(struct rows_builder *builder, uint64_t deadline_ns)
{
	const struct eh_frame *eh = builder->eh;
	Dwarf_Off offset = 0, next;
	Dwarf_CFI_Entry entry;

	for (unsigned int i = 0;; offset = next, i++) {
		int result;

		next = offset;
		result = dwarf_next_cfi(eh->ident, eh->data, true, offset, &next, &entry);
		if (result > 0 || next <= offset)
			return result >= 0;
		builder->work += ENTRY_WORK;
		if (builder->work > ROWS_WORK || (!(i % 1024) && is_past(deadline_ns)))
			return false;
		if (!result && !dwarf_cfi_cie_p(&entry) && !add_function(builder, &entry.fde))
			return false;
	}
}

static int by_start(const void *one, const void *other)
{
	const struct function_rows *a = one, *b = other;

	return (a->start > b->start) - (a->start < b->start);
}

/* Sorts the functions' rows, with what says so where there is none between them. */
static bool sort_rows(struct rows_builder *builder)
{
	struct unwind_rows *out = builder->out;
	uint64_t *rows = calloc(out->n_rows + builder->n_functions, sizeof(*rows));
	uint32_t unknown;
	size_t n = 0;

	if (!rows || !rule_number(builder, &(struct unwind_rule){}, &unknown)) {
		free(rows);
		return false;
	}
	qsort(builder->functions, builder->n_functions, sizeof(*builder->functions), by_start);
	for (size_t i = 0; i < builder->n_functions; i++) {
		const struct function_rows *function = &builder->functions[i];
		uint64_t next = i + 1 < builder->n_functions ? function[1].start : UINT64_MAX;

		if (next < function->end) {
			free(rows);
			return false;
		}
		memcpy(rows + n, out->rows + function->first, function->count * sizeof(*rows));
		n += function->count;
		if (next > function->end)
			rows[n++] = function->end << 32 | unknown;
	}
	free(out->rows);
	out->rows = rows;
	out->n_rows = n;
	return true;
}

bool module_has_eh_frame(Dwfl_Module *mod)
{
	Dwarf_Addr bias;

	return dwfl_module_eh_cfi(mod, &bias) != NULL;
}

struct unwind_rows *module_unwind_rows(Dwfl_Module *mod, uint64_t deadline_ns)
{
	struct eh_frame eh = {};
	struct rows_builder builder = {.eh = &eh, .cie = (Dwarf_Off)-1};
	GElf_Ehdr header;
	bool is_done = false;
	Elf *elf;

	builder.out = calloc(1, sizeof(*builder.out));
	if (!builder.out)
		return NULL;
	elf = dwfl_module_getelf(mod, &builder.out->bias);
	if (elf && gelf_getehdr(elf, &header) && header.e_machine == EM_X86_64 &&
	    module_has_eh_frame(mod))
		find_eh_frame(elf, &eh);
	if (eh.data && eh.data->d_buf && eh.data->d_size <= EH_FRAME_SIZE_MAX) {
		builder.out->rules = calloc(UNWIND_RULES_MAX, sizeof(*builder.out->rules));
		builder.buckets = calloc(RULE_BUCKETS, sizeof(*builder.buckets));
		is_done = builder.out->rules && builder.buckets &&
			  add_functions(&builder, deadline_ns) && builder.n_functions &&
			  sort_rows(&builder);
	}
	free(builder.functions);
	free(builder.buckets);
	if (is_done)
		return builder.out;
	unwind_rows_free(builder.out);
	return NULL;
}

void unwind_rows_free(struct unwind_rows *rows)
{
	free(rows->rows);
	free(rows->rules);
	free(rows);
}

void unwind_rows_copy(const uint64_t *rows, size_t n_rows, uint32_t first_rule, uint64_t *to)
{
	for (size_t i = 0; i < n_rows; i++)
		to[i] = rows[i] + first_rule;
	for (size_t i = n_rows; i % UNWIND_WORDS; i++)
		to[i] = UINT64_MAX;
}
