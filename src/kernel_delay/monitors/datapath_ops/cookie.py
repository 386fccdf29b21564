"""What Open vSwitch writes into an action of its own to know the packet by that comes back.

The kernel keeps these bytes as they are. Their form is Open vSwitch's, and has been the same since
2.10 (struct user_action_cookie in lib/odp-util.h, to 4.0), as is their length, by which
ovs-dpctl knows them too.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

COOKIE_BYTES = 48

# Before what differs: the kind, the OpenFlow port and the bridge's UUID.
_UNION = 24

_DIRECTIONS = MappingProxyType({1: ",ingress", 2: ",egress"})

# enum slow_path_reason, the lowest bit first.
_SLOW_PATH_REASONS = ("cfm", "bfd", "lacp", "stp", "lldp", "action", "match")


def format_cookie(userdata: bytes) -> str | None:
    """As `controller(reason=1,…)` or `slow_path(action)`; None if it is no such cookie."""
    if len(userdata) != COOKIE_BYTES:
        return None
    (kind,) = struct.unpack_from("=H", userdata)
    write = _KINDS.get(kind)
    return None if write is None else write(userdata[_UNION:])


def _sflow(of_kind: bytes) -> str:
    (tci,) = struct.unpack_from("!H", of_kind)
    (output,) = struct.unpack_from("=I", of_kind, 4)
    return f"sFlow(vid={tci & 0xFFF},pcp={tci >> 13},output={output})"


def _slow_path(of_kind: bytes) -> str:
    (reasons,) = struct.unpack_from("=I", of_kind, 4)
    words = [name for bit, name in enumerate(_SLOW_PATH_REASONS) if reasons >> bit & 1]
    unknown = reasons >> len(_SLOW_PATH_REASONS) << len(_SLOW_PATH_REASONS)
    if unknown or not reasons:
        words.append(f"{unknown:#x}" if unknown else "0")
    return f"slow_path({','.join(words)})"


def _flow_sample(of_kind: bytes) -> str:
    probability, collectors, domain, point, port, direction = struct.unpack_from("=H2x5I", of_kind)
    return (
        f"flow_sample(probability={probability},collector_set_id={collectors},"
        f"obs_domain_id={domain},obs_point_id={point},output_port={port}"
        f"{_DIRECTIONS.get(direction, '')})"
    )


def _ipfix(of_kind: bytes) -> str:
    (port,) = struct.unpack_from("=I", of_kind)
    return f"ipfix(output_port={port})"


def _controller(of_kind: bytes) -> str:
    dont_send, continuation, reason, recirc_id = struct.unpack_from("=BBHI", of_kind)
    (rule_cookie,) = struct.unpack_from("!Q", of_kind, 8)
    controller_id, max_len = struct.unpack_from("=HH", of_kind, 16)
    cookie = f"{rule_cookie:#x}" if rule_cookie else "0"
    return (
        f"controller(reason={reason},dont_send={int(bool(dont_send))},"
        f"continuation={int(bool(continuation))},recirc_id={recirc_id},rule_cookie={cookie},"
        f"controller_id={controller_id},max_len={max_len})"
    )


# enum user_action_cookie_type
_KINDS: Mapping[int, Callable[[bytes], str]] = MappingProxyType(
    {1: _sflow, 2: _slow_path, 3: _flow_sample, 4: _ipfix, 5: _controller}
)
