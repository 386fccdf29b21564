/* SPDX-License-Identifier: Apache-2.0 */
/* As in stdlib.h: Python frees what it takes of the stores. */
void free(void *memory);
