/* SPDX-License-Identifier: Apache-2.0
 *
 * A call chain for arm64 whose frames are laid out by hand, to be unwound on any machine: _start calls
 * signs, which signs its return address and calls plain, which calls leaf.
 */
	.arch armv8.3-a
	.text

	.globl _start
	.type _start, %function
_start:
	.cfi_startproc
	.cfi_undefined x30
	bl signs
after_signs:
	nop
	.cfi_endproc
	.size _start, . - _start

	.type signs, %function
signs:
	.cfi_startproc
	paciasp
	.cfi_negate_ra_state
	stp x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	bl plain
after_plain:
	ldp x29, x30, [sp], #32
	retaa
	.cfi_endproc
	.size signs, . - signs

	.type plain, %function
plain:
	.cfi_startproc
	str x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x30, -16
	bl leaf
after_leaf:
	ldr x30, [sp], #16
	ret
	.cfi_endproc
	.size plain, . - plain

	.type leaf, %function
leaf:
	.cfi_startproc
	nop
	ret
	.cfi_endproc
	.size leaf, . - leaf
