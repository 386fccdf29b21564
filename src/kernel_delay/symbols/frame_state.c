// SPDX-License-Identifier: Apache-2.0
/* Where a function's caller is, instruction by instruction: a program of .eh_frame changes what is
 * known, and the kernel has a rule for most of that. DWARF 5, 6.4.2.
 */
#include <string.h>

/* GCC nests two. */
#define STATES_MAX 16

/* Where the return address is. */
enum return_address { RA_UNKNOWN, RA_BELOW_CFA, RA_UNDEFINED };

/* What is known at an instruction. The CFA is that register's value and the offset, unless it is
 * of an expression.
 */
struct frame_state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	int64_t rbp_offset;
	uint8_t cfa_expression; /* enum cfa_rule; 0: there is none */
	uint8_t rbp; /* enum rbp_rule */
	uint8_t ra;
};

static bool take_sleb128(struct cursor *cursor, int64_t *value)
{
	const uint8_t *first = cursor->at;
	unsigned int bits;
	uint64_t word;

	if (!take_uleb128(cursor, &word))
		return false;
	bits = 7 * (cursor->at - first);
	if (bits < 64 && cursor->at[-1] & 0x40)
		word |= ~0ULL << bits;
	*value = (int64_t)word;
	return true;
}

static bool take_number(struct cursor *cursor, size_t size, uint64_t *value)
{
	*value = 0;
	if (!take(cursor, size))
		return false;
	memcpy(value, cursor->at - size, size);
	return true;
}

/* GCC's frames that it aligns: DW_OP_breg6 OFFSET [DW_OP_deref]; DWARF 5, 2.5.1. */
static bool is_of_rbp(struct cursor code, bool is_stored, int64_t *offset)
{
	if (!take(&code, 1) || code.at[-1] != DW_OP_breg0 + X86_64_RBP ||
	    !take_sleb128(&code, offset))
		return false;
	return is_stored ? code.end - code.at == 1 && *code.at == DW_OP_deref : code.at == code.end;
}

/* What GNU ld, lld and mold say of a procedure linkage table: rsp + 8, and 8 more from a byte of
 * its slots on; bfd/elfxx-x86.c, elf_x86_64_eh_frame_lazy_plt.
 */
static bool is_of_plt(struct cursor code, int64_t *from)
{
	static const uint8_t before[] = {
		DW_OP_breg0 + X86_64_RSP, 8, DW_OP_breg0 + X86_64_RIP, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t after[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	uint8_t literal;

	if (code.end - code.at != sizeof(before) + 1 + sizeof(after) ||
	    memcmp(code.at, before, sizeof(before)) ||
	    memcmp(code.end - sizeof(after), after, sizeof(after)))
		return false;
	literal = code.at[sizeof(before)];
	*from = literal - DW_OP_lit0;
	return literal >= DW_OP_lit0 && literal <= DW_OP_lit15;
}

static void set_cfa_expression(struct frame_state *state, struct cursor expression)
{
	state->cfa_register = UINT64_MAX;
	state->cfa_expression = CFA_UNKNOWN;
	if (is_of_plt(expression, &state->cfa_offset))
		state->cfa_expression = CFA_PLT;
	else if (is_of_rbp(expression, true, &state->cfa_offset))
		state->cfa_expression = CFA_AT_RBP;
}

static void set_cfa(struct frame_state *state, uint64_t number, int64_t offset)
{
	state->cfa_register = number;
	state->cfa_offset = offset;
	state->cfa_expression = CFA_UNKNOWN;
}

/* Changes one of the register and the offset, which libdw does not do to an expression. */
static bool change_cfa(struct frame_state *state, uint8_t opcode, int64_t value)
{
	if (state->cfa_register == UINT64_MAX)
		return false;
	if (opcode == DW_CFA_def_cfa_register)
		state->cfa_register = value;
	else
		state->cfa_offset = value;
	return true;
}

/* The register is stored at the CFA and the offset. */
static void set_stored(struct frame_state *state, uint64_t number, int64_t offset)
{
	if (number == X86_64_RBP) {
		state->rbp = RBP_AT_CFA;
		state->rbp_offset = offset;
	} else if (number == X86_64_RIP) {
		state->ra = offset == -8 ? RA_BELOW_CFA : RA_UNKNOWN;
	}
}

/* It is found in a way that the kernel does not know, or is what it was, or not known. */
static void set_other(struct frame_state *state, uint64_t number, uint8_t rbp, uint8_t ra)
{
	if (number == X86_64_RBP)
		state->rbp = rbp;
	else if (number == X86_64_RIP)
		state->ra = ra;
}

static void restore(struct frame_state *state, const struct frame_state *initial, uint64_t number)
{
	if (number == X86_64_RBP) {
		state->rbp = initial->rbp;
		state->rbp_offset = initial->rbp_offset;
	} else if (number == X86_64_RIP) {
		state->ra = initial->ra;
	}
}

static struct unwind_rule rule_of(const struct frame_state *state)
{
	struct unwind_rule rule = {.cfa_offset = state->cfa_offset, .rbp = state->rbp};
	bool stores_rbp = state->rbp == RBP_AT_CFA || state->rbp == RBP_AT_RBP;

	if (state->ra == RA_UNDEFINED)
		return (struct unwind_rule){.cfa = CFA_OUTERMOST};
	if (stores_rbp)
		rule.rbp_offset = state->rbp_offset;
	if (state->cfa_expression)
		rule.cfa = state->cfa_expression;
	else if (state->cfa_register == X86_64_RSP)
		rule.cfa = CFA_RSP;
	else if (state->cfa_register == X86_64_RBP)
		rule.cfa = CFA_RBP;
	if (state->ra != RA_BELOW_CFA || !rule.cfa || rule.cfa_offset != state->cfa_offset ||
	    (stores_rbp && rule.rbp_offset != state->rbp_offset))
		return (struct unwind_rule){};
	return rule;
}

/* A function's program, or without @address an initial one. */
struct cfa_program {
	struct cursor code;
	struct frame_state state;
	struct frame_state remembered[STATES_MAX];
	unsigned int n_remembered;
	uint64_t *address;
	int64_t data_alignment;
};

/* Does one instruction that is none of functions' alone; false for one that is not known. */
static bool do_instruction(struct cfa_program *program, uint8_t opcode)
{
	struct frame_state *state = &program->state;
	struct cursor *code = &program->code;
	uint64_t number = opcode & 0x3f, value = 0;
	int64_t offset = 0;

	if ((opcode & 0xc0) == DW_CFA_offset) {
		if (!take_uleb128(code, &value))
			return false;
		set_stored(state, number, value * program->data_alignment);
		return true;
	}
	switch (opcode) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_GNU_args_size:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_undefined:
	case DW_CFA_same_value:
		if (!take_uleb128(code, &value))
			return false;
		if (opcode == DW_CFA_undefined)
			set_other(state, value, RBP_UNKNOWN, RA_UNDEFINED);
		else if (opcode == DW_CFA_same_value)
			set_other(state, value, RBP_SAME, RA_UNKNOWN);
		else if (opcode != DW_CFA_GNU_args_size)
			return change_cfa(state, opcode, value);
		return true;
	case DW_CFA_def_cfa_offset_sf:
		return take_sleb128(code, &offset) &&
		       change_cfa(state, opcode, offset * program->data_alignment);
	case DW_CFA_def_cfa:
	case DW_CFA_offset_extended:
	case DW_CFA_GNU_negative_offset_extended:
	case DW_CFA_register:
	case DW_CFA_val_offset:
		if (!take_uleb128(code, &number) || !take_uleb128(code, &value))
			return false;
		if (opcode == DW_CFA_def_cfa)
			set_cfa(state, number, value);
		else if (opcode == DW_CFA_offset_extended)
			set_stored(state, number, value * program->data_alignment);
		else if (opcode == DW_CFA_GNU_negative_offset_extended)
			set_stored(state, number, -(int64_t)value * program->data_alignment);
		else
			set_other(state, number, RBP_UNKNOWN, RA_UNKNOWN);
		return true;
	case DW_CFA_offset_extended_sf:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_val_offset_sf:
		if (!take_uleb128(code, &number) || !take_sleb128(code, &offset))
			return false;
		if (opcode == DW_CFA_def_cfa_sf)
			set_cfa(state, number, offset * program->data_alignment);
		else if (opcode == DW_CFA_offset_extended_sf)
			set_stored(state, number, offset * program->data_alignment);
		else
			set_other(state, number, RBP_UNKNOWN, RA_UNKNOWN);
		return true;
	case DW_CFA_def_cfa_expression:
		if (!take_uleb128(code, &value) || !take(code, value))
			return false;
		set_cfa_expression(state, (struct cursor){code->at - value, code->at});
		return true;
	case DW_CFA_expression:
	case DW_CFA_val_expression:
		if (!take_uleb128(code, &number) || !take_uleb128(code, &value) ||
		    !take(code, value))
			return false;
		set_other(state, number, RBP_UNKNOWN, RA_UNKNOWN);
		if (opcode == DW_CFA_expression && number == X86_64_RBP &&
		    is_of_rbp((struct cursor){code->at - value, code->at}, false,
			      &state->rbp_offset))
			state->rbp = RBP_AT_RBP;
		return true;
	default:
		return false;
	}
}
