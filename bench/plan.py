"""What `make bench` measures, in the order of the page."""

from bench.measures.acts import Acts
from bench.measures.measure import Measure
from bench.measures.own_cost import OwnCost
from bench.measures.packets import Packets
from bench.measures.pmd_packets import PmdPackets
from bench.measures.reporting import Reporting
from bench.measures.servers import Servers
from bench.measures.several import Several
from bench.measures.soft_irqs import SoftIrqs
from bench.measures.stacks import Stacks
from bench.measures.storm import Storm
from bench.measures.timelines import Timelines
from bench.measures.verifier import Verifier

MEASURES: tuple[Measure, ...] = (
    Acts(),
    Several(),
    Timelines(),
    SoftIrqs(),
    Stacks(),
    OwnCost(),
    Verifier(),
    Storm(),
    Reporting(),
    Packets(),
    PmdPackets(),
    Servers(),
)
