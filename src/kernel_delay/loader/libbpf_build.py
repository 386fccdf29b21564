"""Writes the C source of the `_libbpf` extension: libbpf(3), as cffi declares it.

Run by meson: `libbpf_build.py OUTPUT.c`. API mode, so the compiler checks
every declaration against libbpf's own headers.
"""

import sys
from pathlib import Path

from cffi import FFI

SOURCES = ("features.c", "core_types.c", "libbpf_shim.c")

DECLARATIONS = """
struct bpf_object;
struct bpf_program;
struct bpf_map;
struct bpf_link;
struct ring_buffer;
struct record_reader;
typedef int... pid_t;

struct bpf_prog_info {
    uint32_t id;
    uint64_t run_time_ns;
    uint64_t run_cnt;
    uint64_t recursion_misses;
    ...;
};

struct bpf_uprobe_opts {
    size_t sz;
    size_t ref_ctr_offset;
    bool retprobe;
    ...;
};

struct bpf_kprobe_opts {
    size_t sz;
    size_t offset;
    bool retprobe;
    ...;
};

enum bpf_map_type { BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_TASK_STORAGE, ... };
enum bpf_prog_type { BPF_PROG_TYPE_SOCKET_FILTER, ... };

struct kernel_features {
    bool sees_faults;
    bool reads_other_processes;
    bool preempts_tracepoints;
    bool calls_unpreempted;
    bool knows_earlier_calls;
    bool loops;
    int64_t contexts_distance;
    int faults_errno;
};

const char *libbpf_version_string(void);
int libbpf_strerror(int number, char *text, size_t size);

int read_kernel_features(struct kernel_features *features);
int find_functions(const char *names, size_t count, uint8_t *found);

int libbpf_probe_bpf_map_type(enum bpf_map_type type, const void *options);
int libbpf_probe_bpf_prog_type(enum bpf_prog_type type, const void *options);

struct bpf_object *open_object(const char *path, int types_fd);
void bpf_object__close(struct bpf_object *object);
struct loading { ...; };
void begin_loading(struct loading *loading, struct bpf_object *object, int types_fd);
int end_loading(struct loading *loading);
struct bpf_program *bpf_object__next_program(const struct bpf_object *object,
                                             struct bpf_program *previous);
struct bpf_map *bpf_object__find_map_by_name(const struct bpf_object *object, const char *name);
struct bpf_program *bpf_object__find_program_by_name(const struct bpf_object *object,
                                                     const char *name);

const char *bpf_program__name(const struct bpf_program *program);
bool bpf_program__autoload(const struct bpf_program *program);
int bpf_program__set_autoload(struct bpf_program *program, bool autoload);
int bpf_program__set_log_buf(struct bpf_program *program, char *log, size_t size);
int bpf_program__set_log_level(struct bpf_program *program, uint32_t level);
int bpf_program__fd(const struct bpf_program *program);
struct bpf_link *bpf_program__attach(const struct bpf_program *program);
struct bpf_link *bpf_program__attach_raw_tracepoint(const struct bpf_program *program,
                                                    const char *tracepoint);
struct bpf_link *bpf_program__attach_uprobe_opts(const struct bpf_program *program, pid_t pid,
                                                 const char *path, size_t offset,
                                                 const struct bpf_uprobe_opts *options);
struct bpf_link *bpf_program__attach_kprobe_opts(const struct bpf_program *program,
                                                 const char *function,
                                                 const struct bpf_kprobe_opts *options);
struct bpf_link *bpf_program__attach_usdt(const struct bpf_program *program, pid_t pid,
                                          const char *path, const char *provider,
                                          const char *name, const void *options);
struct bpf_link *bpf_program__attach_perf_event(const struct bpf_program *program, int fd);
int open_tracepoint(uint64_t id);
int open_task_clock(int tid, uint64_t frequency);
struct bpf_link *attach_functions(const struct bpf_program *program, const char *names,
                                  size_t count);
struct bpf_link *attach_map_iterator(const struct bpf_program *program, int map_fd);
int bpf_link__fd(const struct bpf_link *link);
int bpf_link__destroy(struct bpf_link *link);
int bpf_iter_create(int link_fd);

int bpf_map__fd(const struct bpf_map *map);
uint32_t bpf_map__value_size(const struct bpf_map *map);
uint32_t bpf_map__max_entries(const struct bpf_map *map);
int bpf_map__reuse_fd(struct bpf_map *map, int fd);
int bpf_map__get_next_key(const struct bpf_map *map, const void *current, void *next, size_t size);
int bpf_map__lookup_elem(const struct bpf_map *map, const void *key, size_t key_size,
                         void *value, size_t value_size, uint64_t flags);
int bpf_map__delete_elem(const struct bpf_map *map, const void *key, size_t size, uint64_t flags);
uint32_t bpf_map__key_size(const struct bpf_map *map);
int bpf_map__set_max_entries(struct bpf_map *map, uint32_t entries);
int bpf_map__set_value_size(struct bpf_map *map, uint32_t size);
void *bpf_map__initial_value(struct bpf_map *map, size_t *size);

int bpf_map__set_autocreate(struct bpf_map *map, bool autocreate);
int create_inner_array(const char *name, uint32_t value_size, uint32_t entries);
int put_inner_map(int outer_fd, uint32_t place, int inner_fd);

struct ring_buffer *open_notices(int map_fd);
void ring_buffer__free(struct ring_buffer *ring);
int ring_buffer__epoll_fd(const struct ring_buffer *ring);
int ring_buffer__consume(struct ring_buffer *ring);

struct record_reader *record_reader_open(int map_fd, size_t largest);
void record_reader_close(struct record_reader *reader);
int64_t record_reader_take(struct record_reader *reader, const uint64_t **batch);

enum bpf_task_fd_type { BPF_FD_TYPE_UPROBE, BPF_FD_TYPE_URETPROBE, ... };
int bpf_task_fd_query(int pid, int fd, uint32_t flags, char *path, uint32_t *length,
                      uint32_t *program, uint32_t *kind,
                      unsigned long long *offset, unsigned long long *address); /* __u64 */

int bpf_obj_get_info_by_fd(int fd, void *info, uint32_t *length);

void libbpf_log_start(int shown_level);
size_t libbpf_log_take(char *text, size_t size);
"""


def main() -> None:
    """Write the extension's C source to the path given."""
    here = Path(__file__).parent
    ffi = FFI()
    ffi.cdef(DECLARATIONS)
    source = "".join((here / name).read_text() for name in SOURCES)
    ffi.set_source("kernel_delay.loader._libbpf", source)
    ffi.emit_c_code(sys.argv[1])


if __name__ == "__main__":
    main()
