"""The page that lists the rules; `python -m kernel_delay.analysis.verdict.docs_page` prints it.

What it prints is docs/verdict.md.
"""

from kernel_delay.analysis.verdict import RULES
from kernel_delay.analysis.verdict.kernel import KERNEL_SHARE
from kernel_delay.analysis.verdict.program import USER_WORK
from kernel_delay.analysis.verdict.rule import NEGLIGIBLE_NS, Rule
from kernel_delay.analysis.verdict.sleeps import WANTED_SHARE

HEAD = f"""# The verdict

After the tables stands what kept threads from their work. Each sentence is of one rule below,
about the thread that it hit worst; `VERDICT` lines are findings, the worst first, and `REMARK`
lines say where time went that a thread may well have wanted to spend so. A rule counts from a
share of the window on, and from {NEGLIGIBLE_NS // 1000} µs.

The window of a record of [`watch`](watch.md) is a round. In that a thread wants to be done: a wait
is a finding from {100 * WANTED_SHARE:g} % of the round on, whatever it is for, and time in the
program's own code from {100 * KERNEL_SHARE:g} %.

In JSON each has its `rule`, `share`, `tid`, `evidence` and `advice`, and `who`:

| who | whose doing it is |
|---|---|
| `program` | the program's own |
| `other-process` | another process's |
| `kernel` | the kernel's, or a device's |
| `limit` | a limit's that was set: a quota, an affinity, memory |
| `hypervisor` | the hypervisor's |
| `person` | somebody's: a signal, a debugger, a freezer |

A lock's finding goes on with what its owner did: of the waits that the owner itself ended that was
seen. Of others it is told where it is sure: the wait and what the owner did are sums over the same
window, so they overlap by at least what they exceed it together. What is told so is not a finding
of its own. What a thread of the process did that ended another one's waits is told in the same way.

Where a cgroup's limit of memory was reached a hundred times a second or more, the findings that
this can be the cause of say so: that it is, is for the reader to judge.

"The kernel is not to blame" stands before a remark on a thread's own code only where nothing
accuses anybody, nothing was missed, and the kernel's own count of the thread's times agrees.
Nothing is said of what was missed.
"""


def page() -> str:
    """The page, as Markdown."""
    return HEAD + "".join(map(_section, (*RULES, USER_WORK)))


def _section(rule: Rule) -> str:
    kind = "Remark" if rule.remark else "Finding"
    in_turn = ", of one thread or of several in turn" if rule.in_turn else ""
    return (
        f"\n## {rule.name}\n\n{kind}, from {100 * rule.least_share:g} % of the window on{in_turn}."
        f" Looks at {rule.looks_at}. Silent on {rule.silent_on}.\n"
    )


if __name__ == "__main__":
    print(page(), end="")
