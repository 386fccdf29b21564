"""Events as the store keeps them: a sequence of SyscallEvents, which JSON writes lazily."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.capture.syscall_events import _events as events
from kernel_delay.capture.syscall_events.kept_events import KeptEvents
from kernel_delay.host.syscalls import syscall
from kernel_delay.model import Sample, SyscallEvent
from kernel_delay.reporters import json as json_reporter
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from tests.system_calls import syscall_number
from tests.unit.event_samples import STACKS, WITH_EVENTS

NO_STACK = (1 << 32) - 1
OFF_CPU_UNKNOWN = (1 << 63) - 1
KERNEL_PLACES = [0]
USER_PLACES = [1, None, 2]

TIMES = st.integers(0, (1 << 64) - 1)
KEPT = st.fixed_dictionaries(
    {
        "entry_ns": TIMES,
        "exit_ns": TIMES,
        "off_cpu_ns": st.integers(0, (1 << 63) - 1),
        "value": st.integers(-(1 << 63), (1 << 63) - 1),
        "syscall": st.integers(-1, 500) | st.integers(-(1 << 31), (1 << 31) - 1),
        "tid": st.integers(0, 1 << 22),
        "compat": st.booleans(),
        "kernel_stack": st.sampled_from([0, NO_STACK]),
        "user_stack": st.sampled_from([0, 1, 2, NO_STACK]),
    }
)


def in_c(fields: dict[str, int]) -> dict[str, int]:
    """The fields of the struct, which has "compat" in the tid."""
    flag = events.lib.COMPAT_CALL if fields.get("compat") else 0
    own = {name: value for name, value in fields.items() if name != "compat"}
    return own | {"tid": fields["tid"] | flag}


def kept(fields: Sequence[dict[str, int]]) -> Any:
    made: list[Any] = [in_c(each) for each in fields]
    memory: Any = events.ffi.new("struct kept_event[]", made)
    return KeptEvents(memory, len(fields), KERNEL_PLACES, USER_PLACES)


def expected(fields: dict[str, int]) -> SyscallEvent:
    call = syscall(fields["syscall"], compat=bool(fields["compat"]))
    return SyscallEvent(
        tid=fields["tid"],
        number=fields["syscall"],
        name=call.name,
        abi=call.abi,
        entry_ns=fields["entry_ns"],
        exit_ns=fields["exit_ns"],
        ret=fields["value"],
        kernel_stack={0: 0}.get(fields["kernel_stack"]),
        user_stack={0: 1, 2: 2}.get(fields["user_stack"]),
        off_cpu_ns=None if fields["off_cpu_ns"] == OFF_CPU_UNKNOWN else fields["off_cpu_ns"],
    )


@given(fields=st.lists(KEPT, max_size=20), data=st.data())
def test_they_are_a_sequence(fields: list[dict[str, int]], data: st.DataObject) -> None:
    sequence, made = kept(fields), [expected(each) for each in fields]
    assert len(sequence) == len(made)
    assert list(sequence) == made
    assert [sequence[at] for at in range(-len(made), len(made))] == made * 2
    part = data.draw(st.slices(len(made)))
    assert list(sequence[part]) == made[part]
    with pytest.raises(IndexError):
        sequence[len(made)]


@given(fields=st.lists(KEPT, max_size=20))
def test_json_is_that_of_events_made_before(fields: list[dict[str, int]]) -> None:
    made = tuple(expected(each) for each in fields)
    lazily = structs.replace(WITH_EVENTS, syscall_events=kept(fields))
    eagerly = structs.replace(WITH_EVENTS, syscall_events=made)
    line = json_reporter.render(lazily)
    assert line == json_reporter.render(eagerly)
    back = msgspec.json.decode(line, type=Sample)
    assert tuple(back.syscall_events or ()) == made
    one_by_one = Layout(events=True)
    assert text.render(lazily, one_by_one) == text.render(eagerly, one_by_one)


def test_a_million_events_are_written_in_small_pieces() -> None:
    number = syscall_number("futex")
    assert number is not None
    one = {"entry_ns": 1, "exit_ns": 3, "off_cpu_ns": 1, "value": -11, "syscall": number, "tid": 7}
    stacks = {"kernel_stack": NO_STACK, "user_stack": 2}
    sample = structs.replace(WITH_EVENTS, syscall_events=kept([{**one, **stacks}] * 10_000))
    chunks = list(json_reporter.chunks(sample))
    assert max(map(len, chunks)) < 200_000
    parsed = json.loads("".join(chunks))
    assert parsed["syscall_events"] == 10_000 * [
        {
            "tid": 7,
            "number": number,
            "name": "futex",
            "entry_ns": 1,
            "exit_ns": 3,
            "ret": -11,
            "kernel_stack": None,
            "user_stack": 2,
            "abi": None,
            "off_cpu_ns": 1,
        }
    ]
    assert len(parsed["stacks"]) == len(STACKS)


@given(st.text() | st.just('"syscall_events":[]') | st.just('x"syscall_events'))
def test_no_name_is_taken_for_the_events_place(name: str) -> None:
    thread = structs.replace(WITH_EVENTS.threads[0], name=name)
    sample = structs.replace(WITH_EVENTS, threads=(thread,))
    back = msgspec.json.decode(json_reporter.render(sample), type=Sample)
    assert back.threads == (thread,)
    assert tuple(back.syscall_events or ()) == WITH_EVENTS.syscall_events
