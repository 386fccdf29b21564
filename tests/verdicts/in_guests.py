"""A choice of the stages on other kernels: make test-verdicts-kernels.

Of each kind of evidence one: what the kernel names its functions, how it throttles, freezes and
stops. Not among the ordinary tests, which are of this kernel; an emulated CPU is too slow for
more, and for a share of windows that are right. So one of them must be, and none false.
"""

import pytest

from tests.emulation import is_emulated
from tests.needs import need_unix_diag
from tests.verdicts.run import run_case

CASES = (
    "causes/chain_fuse_2_computes",
    "causes/chain_futex_3_timer",
    "causes/chain_inode_1_timer",
    "causes/chain_pipe_3_stopped",
    "causes/chain_short_children",
    "causes/chain_tcp_2_throttled",
    "causes/chain_unix_3_frozen",
    "causes/child",
    "causes/condition",
    "causes/cpu_hogs_and_ticker",
    "causes/datapath_lock",
    "causes/directory_lock",
    "causes/eventfd",
    "causes/file_lock_fcntl",
    "causes/file_lock_flock",
    "causes/filesystem_frozen",
    "causes/frozen_v1",
    "causes/frozen_v2",
    "causes/fuse",
    "causes/futex_raw",
    "causes/inode_lock",
    "causes/membarrier",
    "causes/memory_high",
    "causes/mmap_lock",
    "causes/mqueue",
    "causes/mutex_chain",
    "causes/mutex_sleep",
    "causes/network_lock",
    "causes/network_lock_netns",
    "causes/pipe_reader",
    "causes/quota",
    "causes/quota_of_threads",
    "causes/seccomp_notify",
    "causes/semaphore_sysv",
    "causes/stopped",
    "causes/tcp_peer",
    "causes/terminal",
    "causes/unix_reader",
    "causes/userfaultfd",
    "causes/vfork",
    "healthy/batch",
    "healthy/sleeper",
)

WINDOWS, WINDOW_S = 2, 2.0

# A timer's interrupt is a hundred times as long where its emulator has no CPU meanwhile.
ALSO = frozenset(("interrupt_load",)) if is_emulated() else frozenset[str]()


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_true(name: str) -> None:
    if name.startswith("causes/chain_unix_"):
        # Who sleeps all the time shows nowhere else whom it is connected to.
        need_unix_diag()
    result = run_case(name, WINDOWS, WINDOW_S, ALSO)
    if result.refused:
        pytest.skip(result.refused)
    assert result.failed is None
    reported = [(each.outcome, each.texts) for each in result.judgements]
    assert not any(outcome == "FALSE" for outcome, _ in reported), reported
    assert any(outcome == "right" for outcome, _ in reported), reported
