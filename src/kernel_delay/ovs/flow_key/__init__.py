"""The flow key of an upcall: a row of OVS_KEY_ATTR_* netlink attributes, made readable.

The bytes come from another process and may be cut by the capture or simply
wrong: every function here takes any bytes, and says what it can't decode.
"""

from kernel_delay.ovs.flow_key.decode import format_key, nlraw_lines
from kernel_delay.ovs.flow_key.lookup import datapath_port, recirculation_id
from kernel_delay.ovs.flow_key.match import FlowFilter, format_match

__all__ = [
    "FlowFilter",
    "datapath_port",
    "format_key",
    "format_match",
    "nlraw_lines",
    "recirculation_id",
]
