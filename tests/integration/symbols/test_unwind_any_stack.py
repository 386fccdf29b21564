"""Stacks that make no sense."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.call_chains import running, stopped_in_read

Taken = tuple[tuple[int, ...], int, bytes, ProcessImage, AddressSpace]


@pytest.fixture(scope="module")
def taken(call_chain: Path) -> Iterator[Taken]:
    with running([call_chain, "signal"]) as run, stopped_in_read(run) as thread:
        registers = thread.registers()
        sp, copy = thread.stack()
        with ProcessImage(run.process.pid) as image:
            space = AddressSpace(image)
            yield registers, sp, copy, image, space
            space.close()


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_stack_can_break_it(taken: Taken, data: st.DataObject) -> None:
    """A stack that changes while it is copied: an answer, and only code in it."""
    registers, sp, copy, image, space = taken
    garbage = bytearray(copy)
    for _ in range(data.draw(st.integers(0, 40))):
        at = data.draw(st.integers(0, len(copy) // 8 - 1)) * 8
        word = data.draw(st.sampled_from([0, sp, sp + at, *registers]) | st.integers(0, 2**64 - 1))
        garbage[at : at + 8] = word.to_bytes(8, "little")
    changed = list(registers)
    for i in data.draw(st.lists(st.integers(0, len(registers) - 1), max_size=3)):
        changed[i] = data.draw(st.sampled_from(registers) | st.integers(0, 2**64 - 1))
    stack = space.unwind(tuple(changed), bytes(garbage), sp)
    assert 1 <= len(stack.pcs) == len(stack.exact) <= 1024
    for pc, exact in list(zip(stack.pcs, stack.exact, strict=True))[1:]:
        where = pc if exact else pc - 1
        assert any(code.start <= where < code.end for code in image.mappings)
    assert len(space.frames(stack)) == len(stack.pcs)
