"""Which copies of a stack are of one kind, and what a table of kinds holds."""

import os
from collections.abc import Sequence
from typing import Any

import c_sources
import pytest
from hypothesis import given
from hypothesis import strategies as st

# Places of the pc and the stack pointer in struct pt_regs.
PC, SP = {"x86_64": (16, 19), "aarch64": (32, 31)}[os.uname().machine]

HEAP = (0x5555_0000_0000, 0x5555_0010_0000)
LIBRARY_DATA = (0x7F00_0010_0000, 0x7F00_0020_0000)
STACK = 0x7FFF_0000_1000
CODE = 0x7F00_0000_1234
JUST_MAPPED = 0x7E00_0000_0000

MEASURED = (CODE, 1, STACK + 56, HEAP[0], CODE + 8, 0, 2**63, JUST_MAPPED)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return c_sources.build(tmp_path_factory.mktemp("stacks"))


def kind(built: tuple[Any, Any], words: Sequence[int], pc: int = CODE, sp: int = STACK) -> int:
    ffi, lib = built
    head = ffi.sizeof("struct event_stacks")
    memory = ffi.new("uint64_t[]", head // 8 + len(words))
    stacks = ffi.cast("struct event_stacks *", memory)
    stacks.user_bytes = 8 * len(words)
    stacks.registers[PC], stacks.registers[SP] = pc, sp
    for place, word in enumerate(words):
        memory[head // 8 + place] = word
    data = ffi.new("struct memory_range[]", [HEAP, LIBRARY_DATA])
    return int(lib.hash_user_stack(stacks, stacks.user_bytes, data, len(data)))


@pytest.mark.parametrize(
    ("place", "word"),
    [(1, 99), (2, STACK + 8), (3, HEAP[1] - 1), (3, LIBRARY_DATA[0]), (5, 4095), (6, 2**64 - 1)],
)
def test_values_and_data_make_no_other_kind(built: tuple[Any, Any], place: int, word: int) -> None:
    other = list(MEASURED)
    other[place] = word
    assert kind(built, other) == kind(built, MEASURED)


@pytest.mark.parametrize(
    ("place", "word"),
    [(0, CODE + 1), (1, CODE), (3, HEAP[1]), (4, CODE), (7, JUST_MAPPED + 8), (7, 0)],
)
def test_other_code_makes_another_kind(built: tuple[Any, Any], place: int, word: int) -> None:
    other = list(MEASURED)
    other[place] = word
    assert kind(built, other) != kind(built, MEASURED)


def test_the_place_of_the_call_and_the_depth_make_the_kind(built: tuple[Any, Any]) -> None:
    whole = kind(built, MEASURED)
    assert kind(built, MEASURED, pc=CODE + 4) != whole
    assert kind(built, (0, *MEASURED)) != whole
    assert kind(built, (*MEASURED, 0)) != whole
    # The same calls in another thread, or after a signal on another stack.
    words = [word + (1 << 20) if STACK <= word < STACK + 4096 else word for word in MEASURED]
    assert kind(built, words, sp=STACK + (1 << 20)) == whole


@pytest.mark.skipif(os.uname().machine != "aarch64", reason="x86-64 has no such codes")
def test_a_pointer_authentication_code_makes_no_other_kind(built: tuple[Any, Any]) -> None:
    assert kind(built, (CODE | 0x2A << 48, *MEASURED[1:])) == kind(built, MEASURED)


@pytest.mark.parametrize(
    ("sp", "bytes_there"),
    [(HEAP[1] - 16, 16), (HEAP[0], 64), (HEAP[1] - 64, 64), (HEAP[1], 64), (STACK, 64)],
)
def test_a_stack_ends_with_its_mapping(built: tuple[Any, Any], sp: int, bytes_there: int) -> None:
    ffi, lib = built
    stacks = ffi.new("struct event_stacks *", {"user_bytes": 64})
    stacks.registers[SP] = sp
    data = ffi.new("struct memory_range[]", [HEAP, LIBRARY_DATA])
    assert lib.stack_extent(stacks, data, len(data)) == bytes_there


@given(
    kinds=st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=120),
    most=st.integers(0, 60),
)
def test_a_table_keeps_the_first_of_each_kind(
    built: tuple[Any, Any], kinds: list[int], most: int
) -> None:
    ffi, lib = built
    table, copies = ffi.new("struct stack_table *"), ffi.new("struct stack_table *")
    stack = ffi.new("struct taken_stack *")
    no_stack = (1 << 32) - 1
    try:
        assert lib.stack_table_open(table, most)
        assert lib.stack_table_open(copies, most)
        firsts: dict[int, int] = {}
        for event, number in enumerate(kinds):
            content = event.to_bytes(8, "little")
            index = lib.stack_table_add(table, number, content * 2, 16, content * 2, 16)
            if number not in firsts and len(firsts) < most:
                firsts[number] = event
            expected = list(firsts).index(number) if number in firsts else no_stack
            assert index == expected
            lib.stack_table_use(table, index)
        for index, (number, event) in enumerate(firsts.items()):
            lib.stack_table_get(table, index, stack)
            assert stack.uses == kinds.count(number)
            assert (stack.missing_pages, stack.registers[0]) == (event, event)
            assert bytes(ffi.buffer(stack.bytes, stack.size)) == event.to_bytes(8, "little") * 2
        for index in reversed(range(len(firsts))):
            copy = lib.stack_table_copy(copies, table, index)
            lib.stack_table_get(copies, copy, stack)
            assert stack.registers[0] == list(firsts.values())[index]
            assert stack.uses == 0
        assert lib.stack_table_copy(copies, table, no_stack) == no_stack
    finally:
        lib.stack_table_close(table)
        lib.stack_table_close(copies)
