/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cffi can't declare: libbpf's log callback takes a va_list. The last of
 * the log is kept, since it says why a load was refused.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

static char log_text[64 * 1024];
static size_t log_length;
static int log_shown_level = -1;

static void keep(const char *line, size_t length)
{
	if (length > sizeof(log_text))
		length = sizeof(log_text);
	if (log_length + length > sizeof(log_text)) {
		size_t kept = sizeof(log_text) - length;

		memmove(log_text, log_text + log_length - kept, kept);
		log_length = kept;
	}
	memcpy(log_text + log_length, line, length);
	log_length += length;
}

static int print_log(enum libbpf_print_level level, const char *format, va_list arguments)
{
	static char line[32 * 1024];
	int length = vsnprintf(line, sizeof(line), format, arguments);

	if (length < 0)
		return length;
	if ((size_t)length >= sizeof(line))
		length = sizeof(line) - 1;
	if (level <= LIBBPF_INFO)
		keep(line, length);
	if ((int)level <= log_shown_level)
		fwrite(line, 1, length, stderr);
	return length;
}

/* Keeps the log from now on, and shows what is at most of @shown_level (-1: nothing). */
static void libbpf_log_start(int shown_level)
{
	log_shown_level = shown_level;
	log_length = 0;
	libbpf_set_print(print_log);
}

/* Copies out what was kept, and forgets it. Returns its length. */
static size_t libbpf_log_take(char *text, size_t size)
{
	size_t length = log_length < size ? log_length : size;

	memcpy(text, log_text, length);
	log_length = 0;
	return length;
}
