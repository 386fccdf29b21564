// SPDX-License-Identifier: Apache-2.0
/* Call frame information that costs little to use. libdw does what that says, and a few bytes can
 * make it copy gigabytes: a rule for register 100,000,000, remembered again and again. So what
 * libdw will use for an address is found here as libdw finds it, and checked first.
 */
#include <stdlib.h>
#include <string.h>

/* A program that costs less is free, as MAX_FRAMES of them are affordable; of the others of a file
 * without a table so many are known.
 */
#define FREE_WORK 1024
#define COSTLY_MAX 4096

/* libdw keeps each function's entry that it goes through: malloc and tsearch. */
#define ENTRY_WALK 128

/* A function, and what its program costs. */
struct program {
	uint64_t start;
	uint64_t end;
	uint64_t work;
};

/* What was found out by going through all there is, once. */
struct walked {
	bool done;
	bool is_bounded;
	struct program *costly;
	size_t n_costly;
};

struct module_cfi {
	bool is_found;
	struct cfi eh; /* without data: it can't be used */
	struct walked eh_walked;
	struct walked debug_walked;
};

static uint64_t sign_extended(uint64_t value, size_t size)
{
	unsigned int unused = 64 - 8 * size;

	return (uint64_t)((int64_t)(value << unused) >> unused);
}

static size_t address_size(const struct cfi *cfi)
{
	return cfi->ident[EI_CLASS] == ELFCLASS32 ? 4 : 8;
}

/* 0 for encodings that compilers don't write here. */
static size_t encoded_size(const struct cfi *cfi, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
		return address_size(cfi);
	case DW_EH_PE_udata2:
	case DW_EH_PE_sdata2:
		return 2;
	case DW_EH_PE_udata4:
	case DW_EH_PE_sdata4:
		return 4;
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return 8;
	default:
		return 0;
	}
}

static bool take_address(const struct cfi *cfi, struct cursor *cursor, uint8_t encoding,
			 uint64_t *value)
{
	uint64_t base = cfi->address + (cursor->at - (const uint8_t *)cfi->data->d_buf);
	size_t size = encoded_size(cfi, encoding);

	*value = 0;
	if (!size || !take(cursor, size))
		return false;
	memcpy(value, cursor->at - size, size);
	if (encoding & DW_EH_PE_signed)
		*value = sign_extended(*value, size);
	*value += (encoding & 0x70) == DW_EH_PE_pcrel ? base : 0;
	return true;
}

/* How a CIE has addresses written, as libdw/cie.c reads it; false for what compilers don't write.
 */
static bool read_augmentation(const struct cfi *cfi, const Dwarf_CIE *cie, uint8_t *encoding)
{
	struct cursor data = {cie->augmentation_data,
			      cie->augmentation_data + cie->augmentation_data_size};
	const char *letter = cie->augmentation;
	size_t size;

	*encoding = DW_EH_PE_absptr;
	if (*letter && *letter != 'z')
		return false;
	for (; *letter; letter++) {
		switch (*letter) {
		case 'z':
		case 'S':
		case 'B':
		case 'G':
			continue;
		case 'L':
		case 'R':
			if (!take(&data, 1))
				return false;
			if (*letter == 'R')
				*encoding = data.at[-1];
			continue;
		case 'P':
			if (!take(&data, 1))
				return false;
			size = encoded_size(cfi, data.at[-1]);
			if (!size || !take(&data, size))
				return false;
			continue;
		default:
			return false;
		}
	}
	return !(*encoding & 0xe0) && encoded_size(cfi, *encoding);
}

/* Whether a function's program is bounded, and what it costs: nothing if libdw passes over it. */
static bool fde_is_bounded(const struct cfi *cfi, const Dwarf_FDE *fde, struct program *out)
{
	struct cursor code = {fde->start, fde->end}, initial;
	Dwarf_Off next = fde->CIE_pointer;
	struct pointer_sizes sizes;
	bool usable = true;
	Dwarf_CFI_Entry entry;
	uint64_t length;
	uint8_t encoding;

	*out = (struct program){};
	if (fde->CIE_pointer > UINT64_MAX - 4) /* libdw adds that */
		return false;
	if (dwarf_next_cfi(cfi->ident, cfi->data, cfi->is_eh, fde->CIE_pointer, &next, &entry) ||
	    !dwarf_cfi_cie_p(&entry))
		return true;
	initial =
		(struct cursor){entry.cie.initial_instructions, entry.cie.initial_instructions_end};
	if (!read_augmentation(cfi, &entry.cie, &encoding) ||
	    !take_address(cfi, &code, encoding, &out->start) ||
	    !take_address(cfi, &code, encoding & 0x0f, &length))
		return false;
	out->end = out->start + length;
	if (out->start >= out->end)
		return true;
	if (*entry.cie.augmentation && (!take_uleb128(&code, &length) || !take(&code, length)))
		return false;
	sizes = (struct pointer_sizes){address_size(cfi), encoded_size(cfi, encoding)};
	if (!program_is_bounded(initial, &sizes, &usable, &out->work) ||
	    !program_is_bounded(code, &sizes, NULL, &out->work))
		return false;
	if (!usable)
		out->end = out->start;
	return true;
}

static bool pay(uint64_t *budget, uint64_t price)
{
	if (*budget < price)
		return false;
	*budget -= price;
	return true;
}

static uint64_t row_start(const struct cfi *cfi, size_t row)
{
	return cfi->rows_address + signed_at(cfi->rows + row * ROW_SIZE);
}

/* The row that says of the address, as libdw/fde.c searches it; n_rows if there is none. */
static size_t find_row(const struct cfi *cfi, uint64_t pc)
{
	size_t low = 0, high = cfi->n_rows;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (pc < row_start(cfi, mid))
			high = mid;
		else if (mid + 1 < cfi->n_rows && pc >= row_start(cfi, mid + 1))
			low = mid + 1;
		else
			return mid;
	}
	return cfi->n_rows;
}

/* libdw takes an entry that it has used already for all addresses that this is of, also where the
 * table has another. Then nobody would have paid for it.
 */
static bool is_of_row(const struct cfi *cfi, const struct program *program, size_t row)
{
	return program->start == row_start(cfi, row) &&
	       (row + 1 == cfi->n_rows || program->end <= row_start(cfi, row + 1));
}

static bool row_is_bounded(const struct cfi *cfi, uint64_t pc, struct cfi_budget *budget,
			   bool *covered)
{
	size_t row = find_row(cfi, pc);
	Dwarf_Off offset, next;
	Dwarf_CFI_Entry entry;
	struct program program;

	if (row == cfi->n_rows)
		return true;
	offset = next =
		cfi->rows_address + signed_at(cfi->rows + row * ROW_SIZE + 4) - cfi->address;
	if (offset >= cfi->data->d_size)
		return false;
	if (dwarf_next_cfi(cfi->ident, cfi->data, true, offset, &next, &entry) ||
	    dwarf_cfi_cie_p(&entry))
		return true;
	if (!fde_is_bounded(cfi, &entry.fde, &program))
		return false;
	if (program.work > FREE_WORK &&
	    (!is_of_row(cfi, &program, row) || !pay(&budget->work, program.work)))
		return false;
	*covered = pc >= program.start && pc < program.end;
	return true;
}

static bool keep(struct walked *walked, const struct program *program)
{
	struct program *room;

	if (program->work <= FREE_WORK)
		return true;
	if (walked->n_costly == COSTLY_MAX)
		return false;
	/* Twice as much room at each power of two. */
	if (!(walked->n_costly & (walked->n_costly - 1))) {
		size_t n = walked->n_costly ? 2 * walked->n_costly : 1;

		room = realloc(walked->costly, n * sizeof(*room));
		if (!room)
			return false;
		walked->costly = room;
	}
	walked->costly[walked->n_costly++] = *program;
	return true;
}

/* libdw goes through all entries up to the function's, and keeps them. */
static bool walk(const struct cfi *cfi, struct walked *walked, struct cfi_budget *budget)
{
	Dwarf_Off offset = 0, next;
	Dwarf_CFI_Entry entry;
	struct program program;

	for (;; offset = next) {
		int result;

		next = offset;
		result = dwarf_next_cfi(cfi->ident, cfi->data, cfi->is_eh, offset, &next, &entry);
		if (result > 0 || next <= offset)
			return true;
		if (!pay(&budget->walk, ENTRY_WALK + next - offset))
			return false;
		if (result < 0 || dwarf_cfi_cie_p(&entry))
			continue;
		if (!fde_is_bounded(cfi, &entry.fde, &program) ||
		    !pay(&budget->walk, program.work) || !keep(walked, &program))
			return false;
	}
}

/* Where entries overlap, the most that it may cost. */
static bool walked_is_bounded(const struct walked *walked, uint64_t pc, struct cfi_budget *budget)
{
	uint64_t work = 0;

	if (!walked->is_bounded)
		return false;
	for (size_t i = 0; i < walked->n_costly; i++) {
		const struct program *program = &walked->costly[i];

		if (pc >= program->start && pc < program->end && program->work > work)
			work = program->work;
	}
	return pay(&budget->work, work);
}

static void release_cfi(void *known_of_module)
{
	struct module_cfi *known = known_of_module;

	free(known->eh_walked.costly);
	free(known->debug_walked.costly);
	free(known);
}

static struct module_cfi *known_of(Dwfl_Module *mod)
{
	void **place = module_place(mod, release_cfi);

	if (!*place)
		*place = calloc(1, sizeof(struct module_cfi));
	return *place;
}

static bool eh_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget, bool *covered)
{
	struct module_cfi *known = known_of(mod);
	Dwarf_Addr bias;

	if (!dwfl_module_eh_cfi(mod, &bias))
		return true;
	if (!known)
		return false;
	if (!known->is_found) {
		find_eh_cfi(dwfl_module_getelf(mod, &(Dwarf_Addr){0}), &known->eh);
		known->is_found = true;
	}
	if (!known->eh.data || !known->eh.data->d_buf)
		return false;
	if (known->eh.rows)
		return row_is_bounded(&known->eh, pc - bias, budget, covered);
	if (!known->eh_walked.done) {
		known->eh_walked.is_bounded = walk(&known->eh, &known->eh_walked, budget);
		known->eh_walked.done = true;
	}
	return walked_is_bounded(&known->eh_walked, pc - bias, budget);
}

/* libdw takes one of them, and has decompressed it (libdw/dwarf_begin_elf.c). */
static bool walk_debug_frames(Elf *elf, struct walked *walked, struct cfi_budget *budget)
{
	struct cfi cfi = {.ident = (const unsigned char *)elf_getident(elf, NULL)};
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names;

	if (!cfi.ident || cfi.ident[EI_DATA] != ELFDATA2LSB || elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = section_name(elf, scn, names, &shdr);

		if (!strstr(name, "debug_frame") || shdr.sh_type == SHT_NOBITS)
			continue;
		cfi.data = elf_getdata(scn, NULL);
		if (cfi.data && cfi.data->d_buf && !walk(&cfi, walked, budget))
			return false;
	}
	return true;
}

static bool debug_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget)
{
	struct module_cfi *known = known_of(mod);
	Dwarf_Addr bias;
	Elf *elf;

	if (!dwfl_module_dwarf_cfi(mod, &bias))
		return true;
	if (!known)
		return false;
	if (!known->debug_walked.done) {
		elf = dwarf_getelf(dwfl_module_getdwarf(mod, &bias));
		known->debug_walked.is_bounded =
			walk_debug_frames(elf, &known->debug_walked, budget);
		known->debug_walked.done = true;
	}
	return walked_is_bounded(&known->debug_walked, pc - bias, budget);
}

bool eh_cfi_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget)
{
	bool covered = false;

	return eh_is_bounded(mod, pc, budget, &covered);
}

bool cfi_is_bounded(Dwfl_Module *mod, uint64_t pc, struct cfi_budget *budget)
{
	bool covered = false;

	/* libdwfl asks .debug_frame for what .eh_frame says nothing of. */
	return eh_is_bounded(mod, pc, budget, &covered) &&
	       (covered || debug_is_bounded(mod, pc, budget));
}
