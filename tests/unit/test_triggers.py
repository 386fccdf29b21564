"""The TRIGGER grammar: each form, each error, and that nothing else comes out."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.errors import UsageError
from kernel_delay.probes.triggers import (
    KprobeTrigger,
    TracepointTrigger,
    Trigger,
    UprobeTrigger,
    UsdtTrigger,
    parse_trigger,
)


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("u:udpif_revalidator:start_dump", UsdtTrigger("udpif_revalidator", "start_dump")),
        (
            "usdt:dpif_netlink_operate__:op_flow_put",
            UsdtTrigger("dpif_netlink_operate__", "op_flow_put"),
        ),
        ("t:openvswitch:ovs_dp_upcall", TracepointTrigger("openvswitch", "ovs_dp_upcall")),
        ("trace:syscalls:sys_enter_openat", TracepointTrigger("syscalls", "sys_enter_openat")),
        ("k:ovs_dp_process_packet", KprobeTrigger("ovs_dp_process_packet")),
        ("kprobe:tcp_v4_rcv+0x1F", KprobeTrigger("tcp_v4_rcv", 0x1F)),
        ("kr:ovs_dp_process_packet", KprobeTrigger("ovs_dp_process_packet", is_return=True)),
        ("kretprobe:do_exit.part.0", KprobeTrigger("do_exit.part.0", is_return=True)),
        ("up:bridge_run", UprobeTrigger(None, "bridge_run")),
        ("uprobe:bridge_run+0x10", UprobeTrigger(None, "bridge_run", 0x10)),
        ("up:libc.so.6:malloc", UprobeTrigger("libc.so.6", "malloc")),
        ("up:/opt/a:b/libx.so:f", UprobeTrigger("/opt/a:b/libx.so", "f")),
        ("up:0x401136", UprobeTrigger(None, None, 0x401136)),
        ("up:libc.so.6:0x9a0", UprobeTrigger("libc.so.6", None, 0x9A0)),
        ("ur:bridge_run", UprobeTrigger(None, "bridge_run", is_return=True)),
        ("upr:bridge_run", UprobeTrigger(None, "bridge_run", is_return=True)),
        ("uretprobe:0x401136", UprobeTrigger(None, None, 0x401136, is_return=True)),
    ],
)
def test_each_form_is_read(text: str, trigger: Trigger) -> None:
    assert parse_trigger(text) == trigger


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bridge_run", "has no type"),
        ("", "has no type"),
        ("x:bridge_run", "unknown type 'x'"),
        ("U:a:b", "unknown type 'U'"),
        (":a", "unknown type ''"),
        ("u:start_dump", "u:PROVIDER:PROBE"),
        ("u:a:b:c", "u:PROVIDER:PROBE"),
        ("u::b", "u:PROVIDER:PROBE"),
        ("t:sched_switch", "t:SYSTEM:EVENT"),
        ("t:..:..", "t:SYSTEM:EVENT"),
        ("t:a/b:c", "t:SYSTEM:EVENT"),
        ("k:", "k:FUNCTION"),
        ("k:a:b", "k:FUNCTION"),
        ("k:a+16", "hexadecimal"),
        ("k:a+0x11112222333344445", "hexadecimal"),
        ("kr:a+0x1", "kr:FUNCTION"),
        ("up:", "up:[LIBRARY:]FUNCTION"),
        ("up::f", "up:[LIBRARY:]FUNCTION"),
        ("up:a:b:f", "up:[LIBRARY:]FUNCTION"),
        ("up:a::0x1", "up:[LIBRARY:]FUNCTION"),
        ("up:401136", "up:[LIBRARY:]FUNCTION"),
        ("ur:f+0x4", "ur:[LIBRARY:]FUNCTION"),
        ("up:f\n", "characters that no name has"),
    ],
)
def test_each_error_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        parse_trigger(text)
    assert "\n" not in str(caught.value)


kinds = st.from_regex("u(sdt)?|t(race)?|kr?|k(ret)?probe|upr?|ur|u(ret)?probe|x", fullmatch=True)
pieces = st.text(alphabet="ab0x19:+/._ \n\té" + "$-", max_size=12)


@given(st.one_of(st.text(), st.builds("{}:{}".format, kinds, pieces)))
def test_any_text_is_a_trigger_or_a_clear_error(text: str) -> None:
    try:
        trigger = parse_trigger(text)
    except UsageError as error:
        message = str(error)
    else:
        assert parse_trigger(str(trigger)) == trigger
        return
    assert message.isprintable()


c_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True)
offsets = st.integers(min_value=0, max_value=2**64 - 1)
libraries = st.one_of(st.none(), c_names, c_names.map("/usr/lib/a:b/{}.so.1".format))
triggers = st.one_of(
    st.builds(UsdtTrigger, c_names, c_names),
    st.builds(TracepointTrigger, c_names, c_names),
    st.builds(KprobeTrigger, c_names, offsets),
    st.builds(KprobeTrigger, c_names, is_return=st.just(True)),
    st.builds(UprobeTrigger, libraries, c_names, offsets),
    st.builds(UprobeTrigger, libraries, c_names, is_return=st.just(True)),
    st.builds(UprobeTrigger, libraries, st.none(), offsets, st.booleans()),
)


@given(triggers)
def test_a_trigger_s_text_parses_back(trigger: Trigger) -> None:
    assert parse_trigger(str(trigger)) == trigger
