// SPDX-License-Identifier: Apache-2.0
/* Where a file has its .eh_frame, and how that has numbers and addresses. */
#include <string.h>

/* .eh_frame_hdr: version, three encodings, .eh_frame's address as linkers write it; LSB 5.0, 10.6.
 */
#define HDR_SIZE 8
#define PCREL_SDATA4 (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

static bool take(struct cursor *cursor, size_t size)
{
	if ((size_t)(cursor->end - cursor->at) < size)
		return false;
	cursor->at += size;
	return true;
}

/* SLEB128 has the same length. */
static bool take_uleb128(struct cursor *cursor, uint64_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; shift < 70 && cursor->at < cursor->end; shift += 7) {
		uint8_t byte = *cursor->at++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static uint64_t sign_extended(uint64_t value, size_t size)
{
	unsigned int unused = 64 - 8 * size;

	return (uint64_t)((int64_t)(value << unused) >> unused);
}

static size_t address_size(const struct eh_frame *eh)
{
	return eh->ident[EI_CLASS] == ELFCLASS32 ? 4 : 8;
}

/* 0 for encodings that compilers don't write here. */
static size_t encoded_size(const struct eh_frame *eh, uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
		return address_size(eh);
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

static bool take_address(const struct eh_frame *eh, struct cursor *cursor, uint8_t encoding,
			 uint64_t *value)
{
	uint64_t base = eh->address + (cursor->at - (const uint8_t *)eh->data->d_buf);
	size_t size = encoded_size(eh, encoding);

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
static bool read_augmentation(const struct eh_frame *eh, const Dwarf_CIE *cie, uint8_t *encoding)
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
			size = encoded_size(eh, data.at[-1]);
			if (!size || !take(&data, size))
				return false;
			continue;
		default:
			return false;
		}
	}
	return !(*encoding & 0xe0) && encoded_size(eh, *encoding);
}

/* By the program headers, where the file has no sections, as dwarf_getcfi_elf does. */
static void find_by_segment(Elf *elf, struct eh_frame *found)
{
	size_t n, size;
	GElf_Phdr phdr;
	Elf_Data *hdr;
	int32_t distance;

	if (elf_getphdrnum(elf, &n) || !elf_rawfile(elf, &size))
		return;
	for (size_t i = 0; i < n && gelf_getphdr(elf, i, &phdr); i++) {
		const uint8_t *bytes;
		uint64_t offset;

		if (phdr.p_type != PT_GNU_EH_FRAME)
			continue;
		hdr = elf_getdata_rawchunk(elf, phdr.p_offset, phdr.p_filesz, ELF_T_BYTE);
		bytes = hdr ? hdr->d_buf : NULL;
		if (!bytes || phdr.p_filesz < HDR_SIZE || bytes[0] != 1 || bytes[1] != PCREL_SDATA4)
			return;
		memcpy(&distance, bytes + 4, sizeof(distance));
		found->address = phdr.p_vaddr + 4 + distance;
		offset = phdr.p_offset + 4 + distance;
		found->data = elf_getdata_rawchunk(elf, offset, size - offset, ELF_T_BYTE);
		return;
	}
}

void find_eh_frame(Elf *elf, struct eh_frame *found)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names;

	found->ident = (const unsigned char *)elf_getident(elf, NULL);
	if (!found->ident || found->ident[EI_DATA] != ELFDATA2LSB || elf_getshdrstrndx(elf, &names))
		return;
	while (names && (scn = elf_nextscn(elf, scn))) {
		const char *name =
			gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;

		if (name && !strcmp(name, ".eh_frame")) {
			found->address = shdr.sh_addr;
			found->data = elf_rawdata(scn, NULL);
			return;
		}
	}
	find_by_segment(elf, found);
}
