// SPDX-License-Identifier: Apache-2.0
/*
 * What elfutils says of each address of a file: `elfutils_rules FILE` reads addresses from its
 * input, 8 bytes each, and writes a struct unwind_rule for each. Those that the kernel's walk does
 * not know are CFA_UNKNOWN, as where elfutils knows none.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event_records.h"

#define RBP 6
#define RSP 7
#define RIP 16

/* Linkers' way to say rsp + 8 + (((rip & 15) >= N) << 3). */
static bool is_plt(const Dwarf_Op *ops, size_t n)
{
	static const uint8_t atoms[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	DW_OP_plus};

	if (n != sizeof(atoms) || ops[0].number != 8 || ops[1].number)
		return false;
	for (size_t i = 0; i < n; i++)
		if (i == 4 ? ops[i].atom < DW_OP_lit0 || ops[i].atom > DW_OP_lit15
			   : ops[i].atom != atoms[i])
			return false;
	return true;
}

static void set_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t n)
{
	if (n == 1 && ops->atom == DW_OP_bregx && (ops->number == RSP || ops->number == RBP)) {
		rule->cfa = ops->number == RSP ? CFA_RSP : CFA_RBP;
		rule->cfa_offset = ops->number2;
	} else if (n == 1 && (ops->atom == DW_OP_breg0 + RSP || ops->atom == DW_OP_breg0 + RBP)) {
		rule->cfa = ops->atom == DW_OP_breg0 + RSP ? CFA_RSP : CFA_RBP;
		rule->cfa_offset = ops->number;
	} else if (n == 2 && ops->atom == DW_OP_breg0 + RBP && ops[1].atom == DW_OP_deref) {
		rule->cfa = CFA_AT_RBP;
		rule->cfa_offset = ops->number;
	} else if (is_plt(ops, n)) {
		rule->cfa = CFA_PLT;
		rule->cfa_offset = ops[4].atom - DW_OP_lit0;
	}
}

/* libdw has a stored register as the CFA and an offset, or as the expression. */
static bool is_at_cfa(const Dwarf_Op *ops, size_t n, int64_t *offset)
{
	if (!n || ops->atom != DW_OP_call_frame_cfa)
		return false;
	*offset = n > 1 ? (int64_t)ops[1].number : 0;
	return n == 1 || (n == 2 && ops[1].atom == DW_OP_plus_uconst);
}

static void set_rbp(struct unwind_rule *rule, const Dwarf_Op *ops, size_t n, bool is_same)
{
	int64_t offset = 0;

	rule->rbp = RBP_UNKNOWN;
	if (is_same) {
		rule->rbp = RBP_SAME;
	} else if (is_at_cfa(ops, n, &offset)) {
		rule->rbp = RBP_AT_CFA;
	} else if (n == 2 && ops[1].atom == DW_OP_breg0 + RBP) {
		/* An expression begins with the CFA on its stack: DWARF 5, 6.4.2.3. */
		rule->rbp = RBP_AT_RBP;
		offset = ops[1].number;
	}
	rule->rbp_offset = offset;
	if (rule->rbp_offset != offset)
		rule->cfa = CFA_UNKNOWN;
}

static struct unwind_rule rule_at(Dwarf_CFI *cfi, uint64_t address)
{
	struct unwind_rule rule = {}, unknown = {};
	Dwarf_Op memory[3], *ops;
	Dwarf_Frame *frame;
	int64_t offset;
	size_t n;

	if (dwarf_cfi_addrframe(cfi, address, &frame))
		return unknown;
	if (!dwarf_frame_cfa(frame, &ops, &n))
		set_cfa(&rule, ops, n);
	if (dwarf_frame_register(frame, RBP, memory, &ops, &n))
		rule.cfa = CFA_UNKNOWN;
	else
		set_rbp(&rule, ops, n, !n && !ops);
	if (dwarf_frame_register(frame, RIP, memory, &ops, &n))
		rule.cfa = CFA_UNKNOWN;
	else if (!n && ops == memory)
		rule = (struct unwind_rule){.cfa = CFA_OUTERMOST};
	else if (!is_at_cfa(ops, n, &offset) || offset != -8)
		rule.cfa = CFA_UNKNOWN;
	free(frame);
	return rule.cfa ? rule : unknown;
}

int main(int argc, char **argv)
{
	int fd = open(argv[argc - 1], O_RDONLY);
	struct unwind_rule rule;
	uint64_t address;
	Dwarf_CFI *cfi;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	cfi = elf ? dwarf_getcfi_elf(elf) : NULL;
	if (argc != 2 || !cfi)
		return 1;
	while (fread(&address, sizeof(address), 1, stdin) == 1) {
		rule = rule_at(cfi, address);
		fwrite(&rule, sizeof(rule), 1, stdout);
	}
	return 0;
}
