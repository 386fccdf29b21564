"""Folded stacks: what flame graph tools read, weighted by time."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kernel_delay.model import StackFrame
from kernel_delay.reporters import folded
from tests.unit.event_samples import EVENTS, WITH_EVENTS, renamed

FUTEX = "revalidator14;[unknown];ovs_mutex_lock_at;__GI___lll_lock_wait;futex_[k]"


def test_line_has_thread_functions_call_and_nanoseconds() -> None:
    assert folded.render(WITH_EVENTS).splitlines() == [
        "3359635;main;ovs_mutex_lock_at;[vdso];9999_[k] 1000087052",
        f"{FUTEX} 95715",
        "revalidator13;futex_[k] 56805",
    ]


def test_like_stacks_are_one_line_with_the_sum() -> None:
    again = structs.replace(EVENTS[0], entry_ns=5, exit_ns=6)
    sample = structs.replace(WITH_EVENTS, syscall_events=(EVENTS[0], again, again))
    assert folded.render(sample) == f"{FUTEX} {95715 + 2}\n"


def test_no_events_no_lines() -> None:
    for none in (None, ()):
        assert folded.render(structs.replace(WITH_EVENTS, syscall_events=none)) == ""


def test_consecutive_nameless_frames_of_an_object_are_one_function() -> None:
    def frame(name: str | None, of: str | None) -> StackFrame:
        return StackFrame(address=1, name=name, offset=0, object=of)

    node, libc = frame(None, "/usr/bin/node"), frame(None, "/lib/libc.so.6")
    stack = (frame("read", "/lib/libc.so.6"), libc, node, node, frame("JS:f", None), node, node)
    event = structs.replace(EVENTS[0], user_stack=0)
    sample = structs.replace(WITH_EVENTS, stacks=(stack,), syscall_events=(event,))
    functions = folded.render(sample).split(";")[1:-1]
    assert functions == ["[node]", "JS:f", "[node]", "[libc.so.6]", "read"]


@given(name=st.text(min_size=1), old=st.sampled_from(["revalidator14", "ovs_mutex_lock_at"]))
def test_no_name_forges_a_frame_or_a_line(name: str, old: str) -> None:
    report = folded.render(renamed(WITH_EVENTS, old, name))
    lines = report.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    by_weight = {line.rpartition(" ")[2]: line.count(";") for line in lines}
    assert by_weight == {"1000087052": 4, "95715": 4, "56805": 1}
