// SPDX-License-Identifier: Apache-2.0
/* Programs of call frame information, and the expressions in them: whether they cost little. */
#include <stddef.h>

/* Far more than compilers need: seen were programs of 34 KiB, of 1,068 remembered states, two at a
 * time, and expressions of 11 bytes; arm's registers go to 287 (AADWARF32, 4.1).
 */
#define INSTRUCTIONS_MAX (64u << 10)
#define REGISTER_MAX 319
#define REMEMBERED_MAX 64
#define EXPRESSION_MAX 256

/* What these take of a budget, as one copies all registers, and a byte of the other may be
 * evaluated for each of them, and read memory.
 */
#define REMEMBER_WORK 32
#define EXPRESSION_WORK 32

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

/* A letter or the size in bytes for each operand of DW_OP_*; NULL for those that libdwfl knows in
 * no call frame information, and DW_OP_call_frame_cfa, which DWARF 5, 6.4.2 rules out.
 */
static const char *operation_operands(uint8_t operation)
{
	switch (operation) {
	case DW_OP_deref:
	case DW_OP_dup ... DW_OP_over:
	case DW_OP_swap ... DW_OP_rot:
	case DW_OP_abs ... DW_OP_plus:
	case DW_OP_shl ... DW_OP_xor:
	case DW_OP_eq ... DW_OP_ne:
	case DW_OP_lit0 ... DW_OP_reg31:
	case DW_OP_nop:
	case DW_OP_stack_value:
		return "";
	case DW_OP_addr:
		return "a";
	case DW_OP_const1u:
	case DW_OP_const1s:
	case DW_OP_pick:
	case DW_OP_deref_size:
		return "1";
	case DW_OP_const2u:
	case DW_OP_const2s:
		return "2";
	case DW_OP_const4u:
	case DW_OP_const4s:
		return "4";
	case DW_OP_const8u:
	case DW_OP_const8s:
		return "8";
	case DW_OP_constu:
	case DW_OP_consts:
	case DW_OP_plus_uconst:
	case DW_OP_breg0 ... DW_OP_regx:
		return "u";
	case DW_OP_bregx:
		return "uu";
	case DW_OP_bra:
	case DW_OP_skip:
		return "f";
	default:
		return NULL;
	}
}

static bool take_operation_operand(struct cursor *cursor, size_t address_size, char kind)
{
	uint64_t value;

	switch (kind) {
	case 'a':
		return take(cursor, address_size);
	case 'u':
		return take_uleb128(cursor, &value);
	case 'f': /* where to go on: ahead, so it takes no more steps than there are */
		return take(cursor, 2) && !(cursor->at[-1] & 0x80);
	default:
		return take(cursor, kind - '0');
	}
}

/* libdwfl has no frame at hand for DW_OP_deref_size in that of the CFA itself, and crashes
 * (libdwfl/frame_unwind.c, 0.188).
 */
static bool expression_is_bounded(struct cursor expression, size_t address_size, bool is_cfa)
{
	if (expression.end - expression.at > EXPRESSION_MAX)
		return false;
	while (expression.at < expression.end) {
		uint8_t operation = *expression.at++;
		const char *operand = operation_operands(operation);

		if (!operand || (is_cfa && operation == DW_OP_deref_size))
			return false;
		for (; *operand; operand++)
			if (!take_operation_operand(&expression, address_size, *operand))
				return false;
	}
	return true;
}

/* A letter or the size in bytes for each operand of the other instructions than the three that have
 * one inside. They are those of DWARF 5, 7.24, and of GCC and arm64.
 */
static const char *const instruction_operands[] = {
	[DW_CFA_nop] = "",
	[DW_CFA_set_loc] = "p",
	[DW_CFA_advance_loc1] = "1",
	[DW_CFA_advance_loc2] = "2",
	[DW_CFA_advance_loc4] = "4",
	[DW_CFA_offset_extended] = "ru",
	[DW_CFA_restore_extended] = "r",
	[DW_CFA_undefined] = "r",
	[DW_CFA_same_value] = "r",
	[DW_CFA_register] = "ru",
	[DW_CFA_remember_state] = "",
	[DW_CFA_restore_state] = "",
	[DW_CFA_def_cfa] = "uu",
	[DW_CFA_def_cfa_register] = "u",
	[DW_CFA_def_cfa_offset] = "u",
	[DW_CFA_def_cfa_expression] = "c",
	[DW_CFA_expression] = "re",
	[DW_CFA_offset_extended_sf] = "ru",
	[DW_CFA_def_cfa_sf] = "uu",
	[DW_CFA_def_cfa_offset_sf] = "u",
	[DW_CFA_val_offset] = "ru",
	[DW_CFA_val_offset_sf] = "ru",
	[DW_CFA_val_expression] = "re",
	[0x2c] = "", /* DW_CFA_AARCH64_negate_ra_state_with_pc */
	[DW_CFA_GNU_window_save] = "", /* DW_CFA_AARCH64_negate_ra_state */
	[DW_CFA_GNU_args_size] = "u",
	[DW_CFA_GNU_negative_offset_extended] = "ru",
	[0x3f] = NULL,
};

static bool take_operand(struct cursor *code, const struct pointer_sizes *sizes, char kind,
			 uint64_t *work)
{
	struct cursor expression;
	uint64_t value;

	switch (kind) {
	case 'p':
		return take(code, sizes->encoded);
	case 'r':
		return take_uleb128(code, &value) && value <= REGISTER_MAX;
	case 'u':
		return take_uleb128(code, &value);
	case 'c':
	case 'e':
		if (!take_uleb128(code, &value) || !take(code, value))
			return false;
		*work += value * EXPRESSION_WORK;
		expression = (struct cursor){code->at - value, code->at};
		return expression_is_bounded(expression, sizes->address, kind == 'c');
	default:
		return take(code, kind - '0');
	}
}

/* Those that libdw fails at in an initial program, a CIE's. */
static bool is_of_functions(uint8_t opcode)
{
	switch (opcode) {
	case DW_CFA_set_loc ... DW_CFA_advance_loc4:
	case DW_CFA_restore_extended:
	case DW_CFA_advance_loc ... DW_CFA_advance_loc + 0x3f:
	case DW_CFA_restore ... DW_CFA_restore + 0x3f:
		return true;
	default:
		return false;
	}
}

static const char *operands_of(uint8_t opcode)
{
	if (opcode & 0xc0)
		return (opcode & 0xc0) == DW_CFA_offset ? "u" : "";
	return instruction_operands[opcode];
}

bool program_is_bounded(struct cursor code, const struct pointer_sizes *sizes, bool *usable,
			uint64_t *work)
{
	unsigned int remembered = 0;

	if (code.end - code.at > INSTRUCTIONS_MAX)
		return false;
	*work += code.end - code.at;
	while (code.at < code.end) {
		uint8_t opcode = *code.at++;
		const char *operand = operands_of(opcode);

		if (usable && is_of_functions(opcode)) {
			*usable = false;
			return true;
		}
		if (!operand)
			return false;
		for (; *operand; operand++)
			if (!take_operand(&code, sizes, *operand, work))
				return false;
		if (opcode == DW_CFA_remember_state) {
			*work += REMEMBER_WORK;
			if (++remembered > REMEMBERED_MAX)
				return false;
		} else if (opcode == DW_CFA_restore_state && !remembered--) {
			return false;
		}
	}
	return true;
}
