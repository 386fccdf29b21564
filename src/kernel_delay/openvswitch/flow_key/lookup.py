"""Single values out of a flow key, for joining and labelling upcalls."""

import struct

from kernel_delay.openvswitch.flow_key.names import IN_PORT, RECIRC_ID
from kernel_delay.openvswitch.flow_key.netlink import walk


def datapath_port(key: bytes) -> int | None:
    """The datapath port a packet came in on; None when `key` does not say.

    The kernel leaves the attribute out for a packet that user space injected
    without a port (ovs_nla_put_key(), net/openvswitch/flow_netlink.c, 6.18).
    """
    return _u32(key, IN_PORT)


def recirculation_id(key: bytes) -> int | None:
    """The recirculation ID a packet was looked up with; None when `key` does not say."""
    return _u32(key, RECIRC_ID)


def _u32(key: bytes, kind: int) -> int | None:
    for attribute in walk(key).found:
        if attribute.type == kind and attribute.complete and len(attribute.payload) == 4:
            value: int = struct.unpack("=I", attribute.payload)[0]
            return value
    return None
