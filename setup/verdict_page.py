"""The page that lists the rules of the verdict: docs/reference/verdict.md."""

from kernel_delay.analysis.verdict import RULES
from kernel_delay.analysis.verdict.kernel_sleep import WANTED_SHARE
from kernel_delay.analysis.verdict.rule import KERNEL_SHARE, MOST_APART, NEGLIGIBLE_NS, Rule
from kernel_delay.analysis.verdict.sleeps import WAIT_LIMITS
from kernel_delay.analysis.verdict.user_work import USER_WORK

HEAD = f"""# Rules of the verdict

Each sentence comes from one rule, which names the thread that lost most. `VERDICT` lines are
findings, the worst first. `REMARK` lines show where time went, perhaps as the thread wanted it.
[What a verdict may claim](../explanation/verdict.md) explains both. Rules on [lost
packets](../open-vswitch/lost-packets.md) have their own page. If more than {MOST_APART} threads of
one name ended, a finding is what they lost together.

A rule counts from a share of the window on, and from {NEGLIGIBLE_NS // 1000} µs. In a record of
[watch](../how-to/watch.md) the window is one iteration of an event loop. There each wait is a
finding from {100 * WANTED_SHARE:g} % on, and the program's own code from {100 * KERNEL_SHARE:g} %.

In [JSON](json.md) each sentence has a `who`:

| who | the cause |
|---|---|
| `program` | the program itself |
| `other-process` | another process |
| `kernel` | the kernel or a device |
| `limit` | a configured limit: quota, affinity, memory |
| `hypervisor` | the hypervisor |
| `person` | a signal, debugger or freezer |
| `tool` | kernel-delay itself |
"""

WAITS = f"""
## Waits

These rules use where in the kernel a thread slept, and who woke it.
Limits: {WAIT_LIMITS} "Summed": several threads together can reach the share.

[Who has the other end](../explanation/verdict.md#who-has-the-other-end) can make a remark a
finding.

| rule | kind | from | the thread waits for |
|---|---|---|---|
"""


def page() -> str:
    """The page, as Markdown."""
    rules = (*RULES, USER_WORK)
    others = [rule for rule in rules if rule.limits != WAIT_LIMITS]
    waits = [rule for rule in rules if rule.limits == WAIT_LIMITS]
    return HEAD + "".join(map(_section, others)) + WAITS + "".join(map(_row, waits))


def _section(rule: Rule) -> str:
    return (
        f"\n## {rule.name}\n\n{_kind(rule)}, from {_least(rule)} on. Measures:"
        f" {rule.measures}\n\nLimits: {rule.limits}\n"
    )


def _row(rule: Rule) -> str:
    return f"| `{rule.name}` | {_kind(rule)} | {_least(rule)} | {rule.measures} |\n"


def _kind(rule: Rule) -> str:
    return ("Remark" if rule.remark else "Finding") + (", summed" if rule.summed else "")


def _least(rule: Rule) -> str:
    return f"{100 * rule.least_share:g} %"
