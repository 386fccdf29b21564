"""A few of the stages, in the ordinary tests: what is innocent is not blamed."""

import pytest

from tests.verdicts.run import run_case

pytestmark = [pytest.mark.usefixtures("root_user", "measurable"), pytest.mark.long]

# A second each, and what starting takes: make test-verdicts has the others.
CASES = (
    "causes/chain_pipe_3_stopped",
    "causes/chain_postgres_stopped",
    "causes/chain_web_threads",
    "causes/cpu_hogs_and_ticker",
    "causes/mutex_chain",
    "causes/quota_of_parent",
    "causes/stopped",
    "causes/uprobe",
    "healthy/load",
    "healthy/pmd",
    "healthy/udp_sender",
)

WINDOW_S = 1.0


@pytest.mark.parametrize("name", CASES)
def test_no_innocent_is_blamed(name: str) -> None:
    result = run_case(name, 1, WINDOW_S)
    if result.refused:
        pytest.skip(result.refused)
    assert result.failed is None
    (judgement,) = result.judgements
    assert judgement.outcome != "FALSE", judgement.texts
