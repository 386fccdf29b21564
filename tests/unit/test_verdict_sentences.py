"""Each sentence of a verdict can be understood at once: short, and without words of our own."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.analysis.verdict.packet_losses import LOSS_RULES
from kernel_delay.analysis.verdict.wait_reasons import WAITS
from kernel_delay.model import Finding
from kernel_delay.reporters import text
from kernel_delay.reporters.layout import Layout
from tests.unit.golden_verdicts import GOLDEN, golden
from tests.unit.plain_words import faults, sentences
from tests.unit.verdict_samples import RULE_NAMES, samples_of


def findings_of(rule: str) -> list[Finding]:
    """All that the rule finds in its samples."""
    judged = (finding for sample in samples_of(rule) for finding in judge(sample).verdict)
    return [finding for finding in judged if finding.rule == rule]


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_each_rule_speaks_in_plain_sentences(rule: str) -> None:
    found = findings_of(rule)
    assert found
    assert [fault for finding in found for fault in faults(finding.text)] == []


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_finding_has_the_parts_of_its_text(rule: str) -> None:
    for finding in findings_of(rule):
        advice = (finding.advice,) if finding.advice else ()
        first, rest = finding.text.split(". ", 1) if ". " in finding.text else (finding.text, "")
        assert rest.startswith(" ".join((*finding.details, *advice))[: len(rest)])
        # The share is a field of its own. Of a loss it is that of the reader, in a detail. Of a sum
        # it is that of the worst thread.
        has_share = rule not in LOSS_RULES and "threads" not in finding.evidence
        assert ("% of the" in first) == has_share
        assert "% of the" not in finding.sentence
        for part in (finding.sentence, *finding.details):
            assert len(list(sentences(part))) <= 2
            assert part.endswith(".")


def test_all_that_the_rules_say_is_the_golden_text() -> None:
    assert golden() == GOLDEN.read_text(), "python -m tests.unit.golden_verdicts writes it"


@pytest.mark.parametrize(
    "advice", [each for wait in WAITS for each in (wait.advice, wait.by_others)]
)
def test_advice_on_waits_is_plain(advice: str | None) -> None:
    assert not list(faults(advice or ""))


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("rule", RULE_NAMES)
def test_on_a_terminal_the_share_stands_first(rule: str, width: int) -> None:
    for sample in samples_of(rule):
        judged = judge(sample)
        only = [finding for finding in judged.verdict if finding.rule == rule]
        lines = text.render(replace(judged, verdict=tuple(only)), Layout(width=width)).splitlines()
        kinds = ("# VERDICT", "# REMARK")
        acquittal = "# VERDICT: no"
        firsts = [
            line for line in lines if line.startswith(kinds) and not line.startswith(acquittal)
        ]
        # Before the tables, and after them.
        assert len(firsts) == 2 * len(only)
        shown = [line for line in firsts if line.split()[1].isalpha() and line.split()[3] == "%:"]
        assert len(shown) == 2 * sum(finding.share > 0 for finding in only)
        below = lines[lines.index(firsts[0]) + 1 :] if firsts else []
        for detail in (detail for finding in only for detail in finding.details):
            start = f"#   {detail.split()[0]} "
            assert any(line.startswith(start) for line in below), detail


def test_old_sentences_are_found_wanting() -> None:
    """What the verdict said of an idle thread before."""
    old = (
        "the main thread postgres (28016) waited for events of its files by epoll in epoll_wait"
        " for 1,990.5 ms, 99 % of the window; pgbench (14582) of process 14582 ended 100 % of that;"
        " the longest wait took 150.7 ms; whether it had work to do is not known."
    )
    assert [fault.partition(":")[0] for fault in faults(old)] == ["46 words", "'of that'"]
