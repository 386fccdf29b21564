"""Which copies of a stack are of one kind, and what a table of kinds holds."""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import c_sources

# Places of the pc and the stack pointer in struct pt_regs.
PC, SP = {"x86_64": (16, 19), "aarch64": (32, 31)}[os.uname().machine]

PROGRAM = (0x5554_0000_0000, 0x5554_0010_0000)
HEAP = (0x5555_0000_0000, 0x5555_0010_0000)
LIBRARY = (0x7F00_0000_0000, 0x7F00_0010_0000)
LIBRARY_DATA = (0x7F00_0010_0000, 0x7F00_0020_0000)
MAPPINGS = [(*PROGRAM, True), (*HEAP, False), (*LIBRARY, True), (*LIBRARY_DATA, False)]
STACK = 0x7FFF_0000_1000
PAGE = 4096
CODE = LIBRARY[0] + 0x1234
JUST_MAPPED = LIBRARY[0] - 0x10_0000
A_TIME = 1_790_000_000_123_456
"""In nanoseconds, and no address that anything is near to."""

MEASURED = (CODE, 1, STACK + 56, HEAP[0], CODE + 8, 0, A_TIME, JUST_MAPPED)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    return c_sources.build(tmp_path_factory.mktemp("stacks"))


def kind(
    built: tuple[Any, Any], words: Sequence[int], pc: int = CODE, sp: int = STACK, pages: int = 1
) -> int:
    """Of a stack with its first words on those pages, to the end of all."""
    ffi, lib = built
    head, page = ffi.sizeof("struct event_stacks") // 8, PAGE // 8
    memory = ffi.new("uint64_t[]", head + page * pages.bit_count())
    stacks = ffi.cast("struct event_stacks *", memory)
    stacks.pages = [pages >> 64 * word & (1 << 64) - 1 for word in range(4)]
    stacks.user_bytes = PAGE * pages.bit_count()
    stacks.registers[PC], stacks.registers[SP] = pc, sp
    stacks.stack_end = sp + PAGE * pages.bit_length()
    for place, word in enumerate(words):
        memory[head + sp % PAGE // 8 + place] = word
    mappings = ffi.new("struct mapped_range[]", MAPPINGS)
    return int(lib.hash_user_stack(stacks, mappings, len(mappings)))


@pytest.mark.parametrize(
    ("place", "word"),
    [
        (1, 99),
        (2, STACK + 8),
        (3, HEAP[1] - 1),
        (3, LIBRARY_DATA[0]),
        (6, A_TIME + 9),
        (6, 2**64 - 1),
    ],
)
def test_values_and_data_make_no_other_kind(built: tuple[Any, Any], place: int, word: int) -> None:
    other = list(MEASURED)
    other[place] = word
    assert kind(built, other) == kind(built, MEASURED)


@pytest.mark.parametrize(
    ("place", "word"),
    [(0, CODE + 1), (1, CODE), (1, PROGRAM[0]), (4, CODE), (7, JUST_MAPPED + 8), (7, 0)],
)
def test_other_code_makes_another_kind(built: tuple[Any, Any], place: int, word: int) -> None:
    other = list(MEASURED)
    other[place] = word
    assert kind(built, other) != kind(built, MEASURED)


def test_kind_depends_on_call_place_and_depth(built: tuple[Any, Any]) -> None:
    whole = kind(built, MEASURED)
    assert kind(built, MEASURED, pc=CODE + 4) != whole
    assert kind(built, (0, *MEASURED)) != whole
    # The same calls in another thread, or after a signal on another stack.
    words = [word + (1 << 20) if STACK <= word < STACK + 4096 else word for word in MEASURED]
    assert kind(built, words, sp=STACK + (1 << 20)) == whole


@pytest.mark.skipif(os.uname().machine != "aarch64", reason="x86-64 has no such codes")
def test_a_pointer_authentication_code_makes_no_other_kind(built: tuple[Any, Any]) -> None:
    assert kind(built, (CODE | 0x2A << 48, *MEASURED[1:])) == kind(built, MEASURED)


def test_memory_beyond_the_stack_does_not_affect_the_kind(built: tuple[Any, Any]) -> None:
    below = (CODE + 99, *MEASURED)
    assert kind(built, below, sp=STACK + 8) != kind(built, MEASURED)
    ffi, lib = built
    head = ffi.sizeof("struct event_stacks") // 8
    kinds = set()
    for under, inside, above in ((1, 2, 3), (9, 2, 9), (1, 9, 3)):
        memory = ffi.new("uint64_t[]", head + PAGE // 8)
        stacks = ffi.cast("struct event_stacks *", memory)
        stacks.pages[0], stacks.user_bytes = 1, PAGE
        stacks.registers[SP], stacks.stack_end = STACK + 8, STACK + 16
        mappings = ffi.new("struct mapped_range[]", MAPPINGS)
        memory[head : head + 3] = [CODE + under, CODE + inside, CODE + above]
        kinds.add(int(lib.hash_user_stack(stacks, mappings, len(mappings))))
    assert len(kinds) == 2


def test_a_page_that_was_not_copied_makes_depth(built: tuple[Any, Any]) -> None:
    assert kind(built, MEASURED, pages=0b11) == kind(built, MEASURED, pages=0b101)
    first, second = MEASURED, (*(0,) * (PAGE // 8), *MEASURED)
    assert kind(built, first, pages=0b11) != kind(built, second, pages=0b11)
    assert kind(built, second, pages=0b11) != kind(built, second, pages=0b101)
    # The 70th page's bit is in another word.
    assert kind(built, second, pages=1 << 70 | 1) != kind(built, second, pages=1 << 71 | 1)


@pytest.mark.parametrize("changed", [0, 5])
def test_addresses_that_the_kernel_walked_make_a_kind(built: tuple[Any, Any], changed: int) -> None:
    ffi, lib = built
    head = ffi.sizeof("struct event_stacks") // 8
    kinds = set()
    for other in (0, 1):
        memory = ffi.new("uint64_t[]", head + 6)
        stacks = ffi.cast("struct event_stacks *", memory)
        stacks.user_bytes = 48
        mappings = ffi.new("struct mapped_range[]", MAPPINGS)
        memory[head : head + 6] = [CODE + place for place in range(6)]
        memory[head + changed] += other
        kinds.add(int(lib.hash_user_stack(stacks, mappings, len(mappings))))
    assert len(kinds) == 2


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
            index = lib.stack_table_add(table, number, content * 5, 40, content * 2, 16)
            if number not in firsts and len(firsts) < most:
                firsts[number] = event
            expected = list(firsts).index(number) if number in firsts else no_stack
            assert index == expected
            lib.stack_table_use(table, index)
        for index, (number, event) in enumerate(firsts.items()):
            lib.stack_table_get(table, index, stack)
            assert stack.uses == kinds.count(number)
            assert (stack.pages[0], stack.registers[0]) == (event, event)
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


def test_a_table_is_full_at_128_mib(built: tuple[Any, Any]) -> None:
    ffi, lib = built
    table, size = ffi.new("struct stack_table *"), 1 << 20
    content = ffi.new("uint8_t[]", size)
    try:
        assert lib.stack_table_open(table, 1000)
        added = [lib.stack_table_add(table, kind, content, 0, content, size) for kind in range(130)]
        assert added == [*range(128), *[(1 << 32) - 1] * 2]
    finally:
        lib.stack_table_close(table)
