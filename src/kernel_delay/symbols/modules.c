// SPDX-License-Identifier: Apache-2.0
/* Modules for libdwfl, of files that Python has found and opened. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void map_zeros(int number, siginfo_t *info, void *context)
{
	uintptr_t size = sysconf(_SC_PAGESIZE), page = (uintptr_t)info->si_addr & ~(size - 1);

	/* Not executable: code of ours that is gone still ends the process. */
	if (info->si_code != BUS_ADRERR ||
	    mmap((void *)page, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		signal(number, SIG_DFL); /* on return it faults again, and ends */
}

/* From now on a mapped file that gets shorter reads as zeros where it ended, rather than end this
 * process by SIGBUS: libdw maps the files that it reads, and their owner may truncate them.
 */
static void outlive_truncation(void)
{
	struct sigaction action = {.sa_sigaction = map_zeros, .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &action, NULL);
}

/* A module's separate debug files, whose descriptors are -1 without one and once libdwfl has it. */
struct module_files {
	int debug_fd;
	char *debug_path;
	int alt_fd;
	char *alt_name; /* as the debug file's .gnu_debugaltlink has it */
};

static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *modname, Dwarf_Addr base,
			  const char *file_name, const char *wanted, GElf_Word crc, char **found)
{
	struct module_files *files = *userdata;
	int fd;

	if (wanted && files->alt_name && !strcmp(wanted, files->alt_name)) {
		fd = files->alt_fd;
		files->alt_fd = -1;
		return fd;
	}
	fd = files->debug_fd;
	if (fd >= 0)
		*found = strdup(files->debug_path);
	files->debug_fd = -1;
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = dwfl_build_id_find_elf, /* not called: modules_add gives the file */
	.find_debuginfo = find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

Dwfl *modules_begin(void)
{
	Dwfl *dwfl;

	elf_version(EV_CURRENT);
	outlive_truncation();
	dwfl = dwfl_begin(&callbacks);
	if (dwfl)
		dwfl_report_begin(dwfl);
	return dwfl;
}

/*
 * libdwfl has programs at a fixed address there, wherever they are mapped besides; and of two files
 * of one name at one place it drops both (libdwfl/dwfl_report_elf.c, 0.188 to 0.193). So each
 * module has another name; nothing else uses that.
 */
Dwfl_Module *modules_add(Dwfl *dwfl, const char *name, int fd, uint64_t bias)
{
	static unsigned long added;
	struct module_files *files = calloc(1, sizeof(*files));
	char unique[32];
	Dwfl_Module *mod;
	void **userdata;

	snprintf(unique, sizeof(unique), "%lu", added++);
	mod = files ? dwfl_report_elf(dwfl, unique, name, fd, bias, true) : NULL;
	if (!mod) {
		free(files);
		close(fd);
		return NULL;
	}
	files->debug_fd = files->alt_fd = -1;
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = files;
	return mod;
}

void module_add_debug(Dwfl_Module *mod, int debug_fd, const char *debug_path, int alt_fd,
		      const char *alt_name)
{
	struct module_files *files;
	void **userdata;

	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	files = *userdata;
	files->debug_fd = debug_fd;
	files->debug_path = strdup(debug_path);
	files->alt_fd = alt_fd;
	files->alt_name = alt_name ? strdup(alt_name) : NULL;
}

int modules_reported(Dwfl *dwfl)
{
	return dwfl_report_end(dwfl, NULL, NULL);
}

static int free_files(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
		      void *arg)
{
	struct module_files *files = *userdata;

	*userdata = NULL;
	if (files->debug_fd >= 0)
		close(files->debug_fd);
	if (files->alt_fd >= 0)
		close(files->alt_fd);
	free(files->debug_path);
	free(files->alt_name);
	free(files);
	return DWARF_CB_OK;
}

void modules_free(Dwfl *dwfl)
{
	dwfl_getmodules(dwfl, free_files, NULL, 0);
	dwfl_end(dwfl);
}

/* Names of functions: the longest of them, and all together. Another's file may have any. */
#define MAX_NAME_LEN (16 << 10)
#define MAX_NAMES_LEN (256 << 20)

char *module_functions(Dwfl_Module *mod, uint64_t *addresses, struct functions *out)
{
	int i, n_symbols = dwfl_module_getsymtab(mod);
	char *names = NULL;
	FILE *stream = open_memstream(&names, &out->names_len);

	if (!stream)
		return NULL;
	for (i = 1; i < n_symbols && i < MAX_SYMBOLS && ftell(stream) < MAX_NAMES_LEN; i++) {
		GElf_Addr address;
		GElf_Sym sym;
		GElf_Word shndx;
		const char *name;

		name = dwfl_module_getsym_info(mod, i, &sym, &address, &shndx, NULL, NULL);
		if (!name || !*name || shndx == SHN_UNDEF || GELF_ST_TYPE(sym.st_info) != STT_FUNC)
			continue;
		fwrite(name, 1, strnlen(name, MAX_NAME_LEN), stream);
		fputc('\0', stream);
		addresses[out->n++] = address;
		out->has_local |= GELF_ST_BIND(sym.st_info) == STB_LOCAL;
	}
	if (fclose(stream)) {
		free(names);
		return NULL;
	}
	return names;
}
