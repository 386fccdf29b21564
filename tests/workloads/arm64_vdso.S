/* SPDX-License-Identifier: Apache-2.0
 *
 * As arm64's vDSO: without unwind information. leaf signs its return address and keeps it;
 * framed puts it on the stack.
 */
	.arch armv8.3-a
	.text

	.globl leaf
	.type leaf, %function
leaf:
	paciasp
	svc #0
after_call:
	autiasp
	ret
	.size leaf, . - leaf

	.globl framed
	.type framed, %function
framed:
	paciasp
	stp x29, x30, [sp, #-32]!
	mov x29, sp
after_prologue:
	ldp x29, x30, [sp], #32
	autiasp
	ret
	.size framed, . - framed

	nop
	.globl __kernel_rt_sigreturn
	.type __kernel_rt_sigreturn, %function
__kernel_rt_sigreturn:
	mov x8, #139
	svc #0
	.size __kernel_rt_sigreturn, . - __kernel_rt_sigreturn
