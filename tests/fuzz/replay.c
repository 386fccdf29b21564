// SPDX-License-Identifier: Apache-2.0
/* In libFuzzer's place: each file of the arguments, once. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		uint8_t *data = malloc(1 << 20);
		size_t size;

		if (!file || !data)
			return 1;
		size = fread(data, 1, 1 << 20, file);
		/* Of its very size, or the sanitizers would miss a byte too many. */
		data = realloc(data, size ? size : 1);
		LLVMFuzzerTestOneInput(data, size);
		free(data);
		fclose(file);
	}
	return 0;
}
