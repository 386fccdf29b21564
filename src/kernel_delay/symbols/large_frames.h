/* SPDX-License-Identifier: Apache-2.0 */

/* Where a function's frame is large: code [start, end), as in memory, whose call frame address is
 * size bytes above the stack pointer, and where the function begins.
 */
struct frame_rows {
	uint64_t start;
	uint64_t end;
	uint64_t size;
	uint64_t function;
};

/* The module's frames of at least smallest bytes, by its .eh_frame; as many as there is room for
 * and are found by deadline_ns of CLOCK_MONOTONIC. None for another architecture than
 * x86-64, where a frame begins right above a return address.
 */
size_t module_large_frames(Dwfl_Module *mod, uint64_t smallest, struct frame_rows *rows,
			   size_t room, uint64_t deadline_ns);
