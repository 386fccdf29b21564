"""Flow keys, and what flows match: rows of OVS_KEY_ATTR_* netlink attributes, made readable.

The bytes come from another process and may be cut by the capture or simply
wrong: every function here takes any bytes, and says what it can't decode.
"""

from kernel_delay.openvswitch.flow_key.decode import (
    datapath_port,
    format_key,
    nlraw_lines,
    recirculation_id,
)
from kernel_delay.openvswitch.flow_key.filter import FlowFilter
from kernel_delay.openvswitch.flow_key.match import format_match
from kernel_delay.openvswitch.flow_key.packet import packet_key

__all__ = [
    "FlowFilter",
    "datapath_port",
    "format_key",
    "format_match",
    "nlraw_lines",
    "packet_key",
    "recirculation_id",
]
