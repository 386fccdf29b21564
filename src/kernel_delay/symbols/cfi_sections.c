// SPDX-License-Identifier: Apache-2.0
/* Where a file has the call frame information of its .eh_frame, and the table that it is found by.
 */
#include <string.h>

/* Encodings of pointers that linkers write: LSB 5.0, 10.5 and 10.6. */
#define PCREL_SDATA4 (DW_EH_PE_pcrel | DW_EH_PE_sdata4)
#define DATAREL_SDATA4 (DW_EH_PE_datarel | DW_EH_PE_sdata4)

/* .eh_frame_hdr: version, three encodings, .eh_frame's address; the number of rows, and these. */
#define HDR_SIZE 8
#define ROWS_OFFSET 12

static int32_t signed_at(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* The table of .eh_frame_hdr, if that has one; false for what linkers don't write. */
static bool find_rows(struct cfi *cfi, const uint8_t *hdr, size_t size, uint64_t address,
		      uint64_t *eh_frame)
{
	uint32_t n;

	if (size < HDR_SIZE || hdr[0] != 1 || hdr[1] != PCREL_SDATA4)
		return false;
	*eh_frame = address + 4 + signed_at(hdr + 4);
	if (hdr[2] == DW_EH_PE_omit || hdr[3] == DW_EH_PE_omit)
		return true;
	if (size < ROWS_OFFSET || hdr[2] != DW_EH_PE_udata4 || hdr[3] != DATAREL_SDATA4)
		return false;
	memcpy(&n, hdr + HDR_SIZE, sizeof(n));
	if (n > (size - ROWS_OFFSET) / ROW_SIZE)
		return false;
	cfi->rows = n ? hdr + ROWS_OFFSET : NULL;
	cfi->n_rows = n;
	cfi->rows_address = address;
	return true;
}

/* By the program headers, where the file has no sections, as dwarf_getcfi_elf does. */
static void find_by_segment(Elf *elf, struct cfi *cfi)
{
	size_t n, size;
	GElf_Phdr phdr;
	Elf_Data *hdr;
	uint64_t offset;

	if (elf_getphdrnum(elf, &n) || !elf_rawfile(elf, &size))
		return;
	for (size_t i = 0; i < n && gelf_getphdr(elf, i, &phdr); i++) {
		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		hdr = elf_getdata_rawchunk(elf, phdr.p_offset, phdr.p_filesz, ELF_T_BYTE);
		if (!hdr || !hdr->d_buf ||
		    !find_rows(cfi, hdr->d_buf, phdr.p_filesz, phdr.p_vaddr, &cfi->address))
			return;
		offset = cfi->address - phdr.p_vaddr + phdr.p_offset;
		cfi->data = elf_getdata_rawchunk(elf, offset, size - offset, ELF_T_BYTE);
		return;
	}
}

static void find_by_section(Elf_Scn *scn, Elf_Scn *hdr_scn, struct cfi *cfi)
{
	Elf_Data *hdr = hdr_scn ? elf_rawdata(hdr_scn, NULL) : NULL;
	GElf_Shdr shdr, hdr_shdr;
	uint64_t eh_frame;

	if (!gelf_getshdr(scn, &shdr))
		return;
	cfi->address = shdr.sh_addr;
	if (hdr && hdr->d_buf) {
		if (!gelf_getshdr(hdr_scn, &hdr_shdr) ||
		    !find_rows(cfi, hdr->d_buf, hdr->d_size, hdr_shdr.sh_addr, &eh_frame))
			return;
		if (eh_frame != cfi->address)
			cfi->rows = NULL;
	}
	cfi->data = elf_rawdata(scn, NULL);
}

static const char *section_name(Elf *elf, Elf_Scn *scn, size_t names, GElf_Shdr *shdr)
{
	const char *name = gelf_getshdr(scn, shdr) ? elf_strptr(elf, names, shdr->sh_name) : NULL;

	return name ? name : "";
}

void find_eh_cfi(Elf *elf, struct cfi *cfi)
{
	Elf_Scn *scn = NULL, *hdr = NULL;
	GElf_Shdr shdr;
	size_t names;

	cfi->is_eh = true;
	cfi->ident = (const unsigned char *)elf_getident(elf, NULL);
	if (!cfi->ident || cfi->ident[EI_DATA] != ELFDATA2LSB || elf_getshdrstrndx(elf, &names))
		return;
	while (names && (scn = elf_nextscn(elf, scn))) {
		const char *name = section_name(elf, scn, names, &shdr);

		if (!strcmp(name, ".eh_frame_hdr"))
			hdr = scn;
		if (!strcmp(name, ".eh_frame")) {
			find_by_section(scn, hdr, cfi);
			return;
		}
	}
	find_by_segment(elf, cfi);
}
