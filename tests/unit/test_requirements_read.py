"""What is read of an object is what its source needs, and kernels are read as libbpf reads them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needed
from tests.requirements.btf import BPFTOOL, Types, without_flavor
from tests.requirements.kernel import has, read_kernel
from tests.requirements.objects import (
    Requirement,
    Use,
    Uses,
    installed_objects,
    read_all,
    read_requirements,
)

RUNNING = Path("/sys/kernel/btf/vmlinux")

# The kernel has types of these names too, but they are read of the program, or ours alone.
NOT_OF_THE_KERNEL = frozenset({("struct", "pollfd"), ("struct", "port"), ("struct", "round")})

RELOCATED = "#pragma clang attribute push(__attribute__((preserve_access_index))"

SOURCE = """
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";
extern int CONFIG_HZ __kconfig __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern const void jiffies __ksym;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct nested {
        int deep[4];
};
struct outer {
        union {
                int first;
                struct nested second;
        };
        struct outer *next;
};
struct outer___newer {
        long third;
};
struct later {
        int any;
};
#pragma clang attribute pop

enum colour { RED, GREEN };

struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(map_flags, BPF_F_NO_COMMON_LRU);
        __uint(max_entries, 1);
        __type(key, __u32);
        __type(value, __u64);
} map SEC(".maps");

SEC("iter.s/task")
int iterate(struct outer *ctx)
{
        struct outer___newer *newer = (void *)ctx;
        __u64 *found = bpf_map_lookup_elem(&map, &(__u32){0});

        if (found)
                __sync_fetch_and_or(found, __sync_val_compare_and_swap(found, 1, 2));
        if (bpf_core_field_exists(newer->third))
                return newer->third;
        if (bpf_core_type_exists(struct later) && bpf_rcu_read_lock)
                bpf_rcu_read_lock();
        return ctx->next->second.deep[2] + CONFIG_HZ + (long)&jiffies +
               bpf_core_enum_value(enum colour, GREEN);
}

SEC("?tp_btf/sched_switch")
int on_switch(void *ctx)
{
        return 0;
}
"""

NEEDED: Uses = {
    Requirement("program type", "tracing"): {Use()},
    Requirement("attach type", "trace_iter"): {Use()},
    Requirement("attach type", "trace_raw_tp"): {Use()},
    Requirement("sleepable program", "iter/task"): {Use()},
    Requirement("iterator", "task"): {Use()},
    Requirement("tracepoint", "sched_switch"): {Use()},
    Requirement("helper", "bpf_map_lookup_elem"): {Use()},
    Requirement("map type", "lru_hash"): {Use()},
    Requirement("map flag", "BPF_F_NO_COMMON_LRU"): {Use()},
    Requirement("kconfig", "CONFIG_HZ"): {Use(checked=True)},
    Requirement("kfunc", "bpf_rcu_read_lock"): {Use(checked=True)},
    Requirement("symbol", "jiffies"): {Use()},
    Requirement("instruction", "atomic cmpxchg"): {Use()},
    Requirement("field", "outer.third"): {Use(leaf="INT"), Use(checked=True, leaf="INT")},
    Requirement("field", "outer.next"): {Use(leaf="PTR")},
    Requirement("field", "outer.second.deep"): {Use(leaf="ARRAY")},
    Requirement("type", "later"): {Use(checked=True, leaf="STRUCT")},
    Requirement("enumerator", "colour.GREEN"): {Use(leaf="ENUM")},
}


def compiled(source: str, path: Path) -> Path:
    command = [needed("clang"), "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-w", "-x", "c", "-"]
    includes = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True).stdout
    command += ["-idirafter", f"/usr/include/{includes.strip()}", "-c", "-o", str(path)]
    subprocess.run(command, check=True, input=source.encode())
    return path


@pytest.fixture(scope="module")
def running() -> Path:
    """The running kernel's types."""
    needed(BPFTOOL)
    if not RUNNING.exists():
        pytest.skip("this kernel has no BTF")
    return RUNNING


def test_all_that_a_source_needs_is_read(tmp_path: Path) -> None:
    needed(BPFTOOL)
    read = read_requirements(compiled(SOURCE, tmp_path / "sample.bpf.o"))
    jumps = Requirement("instruction", "32-bit jump")
    read = {name: uses for name, uses in read.items() if name != jumps}
    or_ = {name for name in read if name.name in ("atomic or", "atomic fetch_or")}
    assert len(or_) == 1, "the compiler chooses"
    assert {name: uses for name, uses in read.items() if name not in or_} == NEEDED


def test_what_user_space_attaches_to_is_read() -> None:
    needed(BPFTOOL)
    names = read_all(installed_objects()).keys()
    assert {
        Requirement("tracepoint", "local_timer_entry"),
        Requirement("tracepoint", "local_timer_exit"),
        Requirement("function", "__*_sys_epoll_wait"),
    } <= names


def test_a_program_without_a_known_hook_is_an_error(tmp_path: Path) -> None:
    needed(BPFTOOL)
    source = SOURCE.replace("?tp_btf/sched_switch", "?raw_tp")
    path = compiled(source, tmp_path / "sample.bpf.o")
    with pytest.raises(ValueError, match="what on_switch is attached to"):
        read_requirements(path)


def test_each_access_to_a_type_of_the_kernel_is_relocated(running: Path, project: Path) -> None:
    kernel = {(each.kind.lower(), each.name) for each in Types.read(running)}
    sources = project / "src" / "kernel_delay"
    plain = {
        (kind, without_flavor(name))
        for suffix in ("*.h", "*.bpf.c")
        for path in sources.rglob(suffix)
        for kind, name in declared_without_relocation(path.read_text())
    }
    assert plain & kernel <= NOT_OF_THE_KERNEL, "no row of the table is read of a plain access"


def declared_without_relocation(source: str) -> Iterator[tuple[str, str]]:
    """Go through the structs and unions that no attribute has relocated."""
    relocated = False
    for line in source.splitlines():
        if line.startswith(RELOCATED):
            relocated = True
        elif line.startswith("#pragma clang attribute pop"):
            relocated = False
        elif not relocated and (declared := re.match(r"(struct|union) (\w+) \{", line)):
            yield declared[1], declared[2]


def test_libbpf_finds_each_field_that_we_find(running: Path, tmp_path: Path) -> None:
    kernel = Types.read(running)
    for path in installed_objects():
        found = tmp_path / "found.btf"
        # What libbpf's relocations of the object match, and no other type.
        command = [BPFTOOL, "gen", "min_core_btf", str(running), str(found), str(path)]
        subprocess.run(command, check=True, capture_output=True)
        matched = Types.read(found)
        fields = {
            name: {use.leaf for use in uses}
            for name, uses in read_requirements(path).items()
            if name.kind == "field"
        }
        ours = {name for name, leaves in fields.items() if has(kernel, name, leaves)}
        assert ours == {name for name, leaves in fields.items() if has(matched, name, leaves)}, path


def test_a_header_shows_what_the_kernel_shows(running: Path, tmp_path: Path) -> None:
    header = tmp_path / "vmlinux.h"
    with header.open("wb") as file:
        command = [BPFTOOL, "btf", "dump", "file", str(running), "format", "c"]
        subprocess.run(command, check=True, stdout=file)
    uses = read_all(installed_objects())
    kernel, types = Types.read(running), read_kernel(header, uses)
    for name, each in uses.items():
        leaves = {use.leaf for use in each if use.leaf}
        if (shown := has(types, name, leaves)) is not None:
            assert shown == has(kernel, name, leaves), name


def test_a_field_of_another_type_is_not_ours(tmp_path: Path) -> None:
    needed(BPFTOOL)
    source = "struct has { union { struct { int in[2]; } field; long other; }; } variable;"
    types = Types.read(compiled(source, tmp_path / "kernel.o"))
    assert has(types, Requirement("field", "has.field.in"), {"ARRAY"})
    assert has(types, Requirement("field", "has.field"), {"UNION"})
    assert not has(types, Requirement("field", "has.field"), {"INT"})
    assert not has(types, Requirement("field", "has.missing"))
    assert not has(types, Requirement("field", "missing.field"))
    assert has(types, Requirement("function", "any")) is None
