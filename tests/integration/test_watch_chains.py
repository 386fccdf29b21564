"""`kernel-delay watch --chains`: whom the thread of a long round waited for, to the root."""

from pathlib import Path

from tests.verdicts.staging import running
from tests.watching.asking_rounds import asking_loop, slow_server
from tests.watching.watch import samples_in, watch_of

OPTIONS = ("--threshold", "0.2", "--no-stacks")


def test_record_names_the_root_of_a_wait_chain(root_user: None, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        running(slow_server, path, name="server") as server,
        running(asking_loop, path, name="loop") as loop,
        watch_of(loop.pid, tmp_path / "recordings", *OPTIONS, "--chains") as watching,
    ):
        watching.wait_for_recordings(4)
        watching.end()
        samples = [sample for each in watching.recordings() for sample in samples_in(each)]
    assert all(sample.threads[0].chain is not None for sample in samples)
    for sample in samples:
        (thread,) = sample.threads
        assert thread.chain is not None
        assert thread.time is not None
        assert sum(part.ns for part in thread.chain.parts) == thread.time.blocked_ns
    # The first round may have begun before the server was followed, and others too if the tool had
    # no CPU for as long.
    found = [
        finding
        for sample in samples[1:]
        for finding in sample.verdict
        if finding.rule == "wait_chain"
    ]
    assert {finding.evidence["root_tid"] for finding in found} == {server.pid}
    assert not all(finding.remark for finding in found)


def test_records_have_no_chains_unless_asked_for(root_user: None, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with (
        running(slow_server, path, name="server"),
        running(asking_loop, path, name="loop") as loop,
        watch_of(loop.pid, tmp_path / "recordings", *OPTIONS) as watching,
    ):
        watching.wait_for_recordings()
        watching.end()
        samples = [sample for each in watching.recordings() for sample in samples_in(each)]
    assert all(sample.threads[0].chain is None for sample in samples)
