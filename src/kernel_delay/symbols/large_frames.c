// SPDX-License-Identifier: Apache-2.0
/* Which functions have large frames, by their call frame information. */
#include <limits.h>
#include <string.h>
#include <time.h>

#define X86_64_RSP 7

/* What a process's file can make this read is bounded: of all its information, of one function's,
 * and how often that of one is gone through; and the time of it all.
 */
#define EH_FRAME_MAX (16u << 20)
#define INSTRUCTIONS_MAX (64u << 10)
/* recv_upcalls() of Open vSwitch 3.5 has 35. */
#define ROWS_MAX 512

/* The .eh_frame of a module, as libdw has it. PCREL_SDATA4 is GCC's and Clang's: System V ABI,
 * 4.2.4, and LSB 5.0, 10.5.
 */
struct module_eh_frame {
	struct eh_frame section;
	uint64_t bias;
	Dwarf_CFI *cfi;
};

static bool find_module_eh_frame(Dwfl_Module *mod, struct module_eh_frame *found)
{
	Elf *elf = dwfl_module_getelf(mod, &found->bias);
	GElf_Ehdr header;
	Dwarf_Addr cfi_bias;

	if (!elf || !gelf_getehdr(elf, &header) || header.e_machine != EM_X86_64)
		return false;
	find_eh_frame(elf, &found->section);
	found->cfi = dwfl_module_eh_cfi(mod, &cfi_bias);
	return found->section.data && found->section.data->d_buf &&
	       found->section.data->d_size <= EH_FRAME_MAX && found->cfi;
}

/* Whether the pointers of the CIE's functions are as GCC and Clang write them. */
static bool is_usual(const struct eh_frame *frame, Dwarf_Off offset)
{
	const char *augmentation;
	Dwarf_CFI_Entry entry;
	Dwarf_Off next;
	const uint8_t *at, *end;

	if (dwarf_next_cfi(frame->ident, frame->data, true, offset, &next, &entry) ||
	    !dwarf_cfi_cie_p(&entry))
		return false;
	augmentation = entry.cie.augmentation;
	at = entry.cie.augmentation_data;
	end = at + entry.cie.augmentation_data_size;
	if (*augmentation++ != 'z')
		return false;
	for (; at < end; augmentation++) {
		if (*augmentation == 'R')
			return *at == PCREL_SDATA4;
		if (*augmentation == 'L')
			at++;
		else if (*augmentation == 'P' && (*at & 0x0f) == (PCREL_SDATA4 & 0x0f))
			at += 5;
		else
			break;
	}
	return false;
}

/* Whether the function may have such a frame: cheap, and true for some that have none. */
static bool may_be_large(const Dwarf_FDE *fde, uint64_t smallest)
{
	const uint8_t *at = fde->start, *end = fde->end;

	if (end - at > INSTRUCTIONS_MAX)
		return false;
	for (; at < end; at++) {
		uint64_t offset = 0;

		if (*at != DW_CFA_def_cfa_offset && *at != DW_CFA_def_cfa)
			continue;
		/* A number in LEB128; of DW_CFA_def_cfa the second, the first is below 128. */
		at += *at == DW_CFA_def_cfa;
		for (int i = 1; i <= 4 && at + i < end; i++) {
			offset |= (uint64_t)(at[i] & 0x7f) << 7 * (i - 1);
			if (!(at[i] & 0x80))
				break;
		}
		if (offset >= smallest)
			return true;
	}
	return false;
}

static uint64_t size_at(Dwarf_Frame *frame)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || n != 1)
		return 0;
	if (ops->atom == DW_OP_bregx && ops->number == X86_64_RSP)
		return ops->number2;
	return ops->atom == DW_OP_breg0 + X86_64_RSP ? ops->number : 0;
}

static bool is_past(uint64_t deadline_ns)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec >= deadline_ns;
}

static size_t add_rows(const struct module_eh_frame *eh, const Dwarf_FDE *fde, uint64_t smallest,
		       struct frame_rows *rows, size_t room, uint64_t deadline_ns)
{
	uint64_t offset = fde->start - (const uint8_t *)eh->section.data->d_buf, function, pc, end;
	uint32_t length;
	int32_t start;
	size_t n = 0;

	if (fde->end - fde->start < 8)
		return 0;
	memcpy(&start, fde->start, sizeof(start));
	memcpy(&length, fde->start + sizeof(start), sizeof(length));
	function = pc = eh->section.address + offset + start;
	end = pc + length;
	for (int i = 0; i < ROWS_MAX && n < room && pc < end && !is_past(deadline_ns); i++) {
		Dwarf_Addr row_start = pc, row_end = pc;
		Dwarf_Frame *frame;
		uint64_t size;
		bool is_signal;

		if (dwarf_cfi_addrframe(eh->cfi, pc, &frame))
			break;
		dwarf_frame_info(frame, &row_start, &row_end, &is_signal);
		size = size_at(frame);
		free(frame);
		if (size >= smallest && size <= INT_MAX)
			rows[n++] = (struct frame_rows){row_start + eh->bias, row_end + eh->bias,
							size, function + eh->bias};
		if (row_end <= pc)
			break;
		pc = row_end;
	}
	return n;
}

size_t module_large_frames(Dwfl_Module *mod, uint64_t smallest, struct frame_rows *rows,
			   size_t room, uint64_t deadline_ns)
{
	Dwarf_Off offset = 0, next, cie = (Dwarf_Off)-1;
	Dwarf_CFI_Entry entry;
	struct module_eh_frame eh = {};
	bool usual = false;
	size_t n = 0;

	if (!find_module_eh_frame(mod, &eh))
		return 0;
	for (; n < room && !is_past(deadline_ns); offset = next) {
		int result = dwarf_next_cfi(eh.section.ident, eh.section.data, true, offset, &next,
					    &entry);

		if (result > 0 || (result < 0 && next == (Dwarf_Off)-1) || next <= offset)
			break;
		if (result < 0 || dwarf_cfi_cie_p(&entry))
			continue;
		if (entry.fde.CIE_pointer != cie) {
			cie = entry.fde.CIE_pointer;
			usual = is_usual(&eh.section, cie);
		}
		if (usual && may_be_large(&entry.fde, smallest))
			n += add_rows(&eh, &entry.fde, smallest, rows + n, room - n, deadline_ns);
	}
	return n;
}
