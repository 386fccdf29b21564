// SPDX-License-Identifier: Apache-2.0
/* Functions with frames of several kinds, to be unwound. */
int leaf(int value);
int with_frame_pointer(int value) __attribute__((optimize("no-omit-frame-pointer")));
int with_array(int value, unsigned long length);

static __attribute__((noinline, used)) int local(int value)
{
	return value ? with_frame_pointer(value - 1) + 1 : 0;
}

int leaf(int value)
{
	return value * 3;
}

int with_frame_pointer(int value)
{
	return local(leaf(value)) + leaf(value + 1);
}

int with_array(int value, unsigned long length)
{
	volatile char array[length];

	array[0] = value;
	return with_frame_pointer(array[length - 1]) + 1;
}
