/* SPDX-License-Identifier: Apache-2.0
 *
 * As arm64's vDSO: without unwind information. leaf signs its return address and keeps it.
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

	nop
	.globl __kernel_rt_sigreturn
	.type __kernel_rt_sigreturn, %function
__kernel_rt_sigreturn:
	mov x8, #139
	svc #0
	.size __kernel_rt_sigreturn, . - __kernel_rt_sigreturn
