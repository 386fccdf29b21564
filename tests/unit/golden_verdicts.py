"""golden/verdicts.txt: all that the rules say of their samples, for a reader and for a test.

python -m tests.unit.golden_verdicts writes it; what a change does to the sentences is its diff.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from kernel_delay.analysis.missed import missed_sentences
from kernel_delay.analysis.verdict import OF_CHAINS, judge
from kernel_delay.model import Finding
from tests.unit.verdict_samples import LOST, RULE_NAMES, samples_of

GOLDEN = Path(__file__).parent / "golden" / "verdicts.txt"

# Of the waits these have all their sentences here: of the others the first, as they differ in
# their names and advice.
IN_FULL = ("wait_disk", "wait_futex", "wait_pipe", "wait_poll", "wait_socket_receive")


def golden() -> str:
    """What is to be in the file."""
    lines = [line for rule in RULE_NAMES for line in _of_rule(rule)]
    for lost in LOST:
        lines += ["missed events:", *(f"  {each}" for each in missed_sentences(lost))]
    return "".join(f"{line}\n" for line in lines)


def _of_rule(rule: str) -> Iterator[str]:
    found = [
        finding
        for sample in samples_of(rule)
        # In Open vSwitch a thread's name has its role in front.
        if sample.target.comm != "ovs-vswitchd"
        for finding in judge(sample).verdict
        if finding.rule == rule
    ]
    once = list(dict.fromkeys(map(_shown, found)))
    yield f"{rule}: {len(once)} of {len(found)}"
    shortened = rule.startswith("wait_") and rule not in (*IN_FULL, *OF_CHAINS)
    yield from once[:1] if shortened else once


def _shown(finding: Finding) -> str:
    kind = "remark" if finding.remark else "finding"
    advice = (finding.advice,) if finding.advice else ()
    first = finding.text.removesuffix(" ".join((*finding.details, *advice))).rstrip()
    lines = [
        f"  {kind}, {finding.who}, {finding.share:.3f} of {finding.tid}: {first}",
        *(f"    {detail}" for detail in finding.details),
        *(f"    > {each}" for each in advice),
        f"    {json.dumps(finding.evidence)}",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    GOLDEN.write_text(golden())
