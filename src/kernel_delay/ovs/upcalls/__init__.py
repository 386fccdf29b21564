"""Upcalls: their events, their ports' names, and what a packet's trip costs.

events (live or from a recording) → join() → Joined → analyse() → Analysis
"""

from kernel_delay.ovs.upcalls.costs import Analysis, Costs, Statistics, analyse, costs_of
from kernel_delay.ovs.upcalls.join import Joined, join
from kernel_delay.ovs.upcalls.probe_events import (
    EVENT_TYPES,
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
    UpcallKind,
)
from kernel_delay.ovs.upcalls.sets import UpcallSet

__all__ = [
    "EVENT_TYPES",
    "Analysis",
    "Costs",
    "DpUpcall",
    "Event",
    "FlowExecute",
    "FlowPut",
    "Joined",
    "PacketCmdExecute",
    "RecvUpcall",
    "Statistics",
    "UpcallKind",
    "UpcallSet",
    "analyse",
    "costs_of",
    "join",
]
