"""Of which OpenFlow rules a flow of the datapath was made: `ovs-appctl ofproto/detrace`.

Open vSwitch has it since 3.4 (ofproto/ofproto-dpif-upcall.c:upcall_unixctl_ofproto_detrace()).
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from kernel_delay.openvswitch.unixctl import Command, Unixctl

METHOD = "ofproto/detrace"

ANSWERS_WITHIN_S = 0.5
MOST_FLOWS = 20
"""That are asked for at once: the main thread answers each."""

MOST_RULES = 1000
"""Of a flow: OVN makes some 50 to pass one switch."""

LONGEST_RULE = 1 << 14
"""Of those of a load balancer with hundreds of servers too."""

NOT_PMD = 1 << 31
"""From here on a number is no PMD thread's: NON_PMD_CORE_ID in lib/dpif-netdev.h, PMD_ID_NULL."""

# The datapaths that do not have the flow, and a flow that is being made or deleted.
_NO_RULES = ("UFID was not found for ", "Cache was not found for ")

Flow = tuple[str, int]
"""A flow's UFID, and the PMD thread that has it."""


class Detrace:
    """Asks ovs-vswitchd for the rules of flows."""

    def __init__(self, pid: int) -> None:
        """Connect; UnavailableError where the process has no control socket."""
        self._unixctl = Unixctl(pid)

    def close(self) -> None:
        """Disconnect."""
        self._unixctl.close()

    def rules(self, flows: Sequence[Flow]) -> Mapping[Flow, tuple[str, ...]]:
        """Return the rules of these flows; those without an answer in time are left out."""
        commands = {_command(flow): flow for flow in flows[:MOST_FLOWS]}
        answers = self._unixctl.ask(commands)
        self._unixctl.receive(ANSWERS_WITHIN_S)
        found = {commands[command]: rules_in(text) for command, text in answers.texts.items()}
        return {flow: rules for flow, rules in found.items() if rules}


def rules_in(text: str) -> tuple[str, ...]:
    """Return the rules that an answer has, a line each; what is left out is said in one too."""
    lines = (line.strip() for line in text.splitlines())
    found = [_cut(line) for line in lines if line and not line.startswith(_NO_RULES)]
    more = [f"{len(found) - MOST_RULES:,} more rules"] if len(found) > MOST_RULES else []
    return (*found[:MOST_RULES], *more)


def _cut(line: str) -> str:
    left_out = len(line) - LONGEST_RULE
    return f"{line[:LONGEST_RULE]}… ({left_out:,} characters more)" if left_out > 0 else line


_DURATION = re.compile(r"\bduration=(\d+)s, n_packets=")


def count_newer(rules: Iterable[str], age_s: float) -> int:
    """Count rules that are certainly younger: their ages are printed in whole seconds."""
    ages = (int(found[1]) for rule in rules if (found := _DURATION.search(rule)))
    return sum(age + 1 <= age_s for age in ages)


def _command(flow: Flow) -> Command:
    ufid, pmd_id = flow
    command = (METHOD, f"ufid:{ufid}")
    return command if pmd_id >= NOT_PMD else (*command, f"pmd={pmd_id}")
