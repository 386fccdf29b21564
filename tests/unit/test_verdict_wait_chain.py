"""The verdict on wait chains: it names the root, and nobody who is not sure."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import (
    ChainPart,
    ChainState,
    ChainThread,
    FilePeer,
    Finding,
    Sample,
    Sleep,
    SleepFile,
    SleepReason,
    SyscallStats,
    Thread,
    WaitChain,
)
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window

CLIENT = 27090
SERVER = ChainThread(50, 50, "server")
ROOT = ChainThread(60, 60, "database")
MS = 1_000_000


def waiting(*parts: ChainPart) -> Thread:
    thread = timed_thread(CLIENT, "client")
    sleep = Sleep("socket_receive", "recvfrom", (), False, 5, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    chain = WaitChain(sum(part.ns for part in parts), parts)
    return replace(thread, sleeps=(sleep,), chain=chain)


def judged(*parts: ChainPart) -> Sample:
    return judge(bare_sample(waiting(*parts), window=window(duration_ns=TIMED_WINDOW_NS)))


def finding(*parts: ChainPart) -> Finding:
    return judged(*parts).verdict[0]


def test_first_line_names_the_root_and_what_it_did() -> None:
    found = finding(
        ChainPart((SERVER, ROOT), "throttled", 400 * MS, cgroup="/batch"),
        ChainPart((SERVER, ROOT), "running", 60 * MS),
        ChainPart((), "unknown", 40 * MS),
    )
    assert found.rule == "wait_chain"
    assert not found.remark
    assert found.who == "limit"
    assert found.sentence == (
        "database (60) was throttled by the quota of /batch while the main thread client (27090)"
        " waited for it in recvfrom for 400.0 ms."
    )
    assert "The chain: client (27090) → server (50) → database (60)." in found.details
    assert "Besides, the root was on a CPU for 60.0 ms." in found.details


def test_wait_itself_is_not_said_again() -> None:
    rules = {each.rule for each in judged(ChainPart((SERVER, ROOT), "stopped", 500 * MS)).verdict}
    assert "wait_chain" in rules
    assert not rules & {"wait_socket_receive", "asleep"}


def test_root_that_only_slept_is_a_remark() -> None:
    assert finding(ChainPart((ROOT,), "blocked", 500 * MS, "clock")).remark


def children(waits: int) -> Sleep:
    """So many waits for the end of children, a window long."""
    return Sleep("child", "wait4", (), False, waits, TIMED_WINDOW_NS, TIMED_WINDOW_NS)


@pytest.mark.parametrize(
    ("state", "reason", "forks", "is_remark"),
    [
        ("running", "unknown", 4, False),
        ("blocked", "disk", 4, False),
        # A script that has nothing to do runs sleep(1), and a shell an editor.
        ("blocked", "clock", 4, True),
        ("blocked", "terminal", 4, True),
        # Who restarts what ends may have nothing else to do.
        ("running", "unknown", 1, True),
        ("running", "unknown", 0, True),
    ],
)
def test_children_that_a_thread_starts_itself_are_its_work(
    state: ChainState, reason: SleepReason, forks: int, is_remark: bool
) -> None:
    thread = waiting(ChainPart((ROOT,), state, 500 * MS, reason))
    calls = (SyscallStats(56, "clone", forks, 5, 5),) if forks else ()
    thread = replace(thread, sleeps=(children(5),), syscalls=calls)
    sample = judge(bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS)))
    found = next(each for each in sample.verdict if each.rule == "wait_chain")
    assert found.remark == is_remark


def test_root_that_is_not_known_is_not_named() -> None:
    verdict = judged(ChainPart((SERVER,), "unknown", 500 * MS, "epoll")).verdict
    assert all(each.rule != "wait_chain" for each in verdict)


def test_root_of_less_than_half_is_not_named() -> None:
    verdict = judged(
        ChainPart((ROOT,), "stopped", 200 * MS), ChainPart((), "unknown", 300 * MS)
    ).verdict
    assert all(each.rule != "wait_chain" for each in verdict)


def test_thread_of_the_same_process_is_left_to_other_rules() -> None:
    own = ChainThread(CLIENT + 1, CLIENT, "worker")
    verdict = judged(ChainPart((own,), "running", 500 * MS)).verdict
    assert all(each.rule != "wait_chain" for each in verdict)


HOG = ChainThread(70, 70, "hog")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (ChainPart((ROOT,), "runnable", 0, by=HOG), "had no CPU, which most often hog (70) had,"),
        (ChainPart((ROOT,), "stopped", 0, by=HOG), "was stopped by hog (70)"),
        (ChainPart((ROOT,), "frozen", 0, cgroup="/cg/b"), "was frozen by the cgroup /cg/b"),
        (ChainPart((ROOT,), "blocked", 0, "disk", device="sda1"), "a disk, of the device sda1,"),
    ],
)
def test_object_that_holds_the_root_is_named(part: ChainPart, said: str) -> None:
    parts = [replace(part, ns=300 * MS), replace(part, ns=200 * MS, by=None)]
    assert f"{said} while the main thread client" in finding(*parts).sentence
    # Whoever stopped it is to blame for that alone.
    length = "300.0 ms" if part.state == "stopped" else "500.0 ms"
    assert f"for {length}" in finding(*parts).sentence


def test_frozen_root_has_the_command_that_thaws_it() -> None:
    frozen = ChainPart((SERVER, ROOT), "frozen", 500 * MS, cgroup="/cg/a b")
    v2 = replace(frozen, freezers=("/cg/a b/cgroup.freeze",))
    assert finding(v2).advice == "Thaw it: echo 0 >'/cg/a b/cgroup.freeze'"
    v1 = replace(frozen, freezers=("/cg/a b/freezer.state",))
    assert finding(v1).advice == "Thaw it: echo THAWED >'/cg/a b/freezer.state'"
    redacted = replace(frozen, freezers=("freezer.state",))
    assert finding(redacted).advice == "Thaw it: echo THAWED >freezer.state"
    assert "its cgroup" in (finding(frozen).advice or "")


def test_awaited_process_with_an_unknown_root_is_named() -> None:
    """It is known whom the thread waited for: what that did is not."""
    several = (SERVER, ChainThread(0, 0, "sh"))
    found = finding(
        ChainPart((SERVER,), "runnable", 300 * MS),
        ChainPart(several, "unknown", 150 * MS, gap="not_followed"),
        ChainPart((), "unknown", 50 * MS),
    )
    waited = "For 150.0 ms it waited for several processes named sh"
    assert f"{waited}; the root of that wait is not known." in found.details
    assert "For 50.0 ms it is not known whom it waited for." in found.details


def test_stopper_of_another_process_has_its_name() -> None:
    worker = ChainThread(71, 70, "worker", process="tool")
    part = ChainPart((ROOT,), "stopped", 500 * MS, by=worker)
    assert "was stopped by worker (71) of tool (70) while" in finding(part).sentence


@pytest.mark.parametrize(
    ("part", "did", "advice"),
    [
        (ChainPart((), "running", 0), "were on a CPU", "To see what they do: kernel-delay -p 50"),
        (ChainPart((), "blocked", 0, "pipe"), "waited for", "To see what they do: kernel-delay"),
        (ChainPart((), "stopped", 0), "were stopped", "To see what they do: kernel-delay -p 50"),
        (ChainPart((), "blocked", 0, "clock"), "slept on a timer", None),
    ],
)
def test_processes_that_are_gone_are_a_root(part: ChainPart, did: str, advice: str | None) -> None:
    threads = (SERVER, ChainThread(0, 0, "sh"))
    found = finding(replace(part, threads=threads, ns=500 * MS))
    assert found.sentence.startswith(f"several processes named sh {did}")
    assert (
        "while the main thread client (27090) waited for them in recvfrom for 500.0 ms"
        in found.sentence
    )
    assert "root_pid" not in found.evidence
    assert found.advice == advice or (advice and (found.advice or "").startswith(advice))


def test_a_traced_root_is_not_to_be_resumed_by_a_signal() -> None:
    gdb = ChainThread(9, 9, "gdb")
    part = ChainPart((SERVER, ROOT), "stopped", 500 * MS, by=gdb)
    assert finding(part).advice == "kill -CONT 60 resumes it if it is still stopped."
    traced = finding(replace(part, traced=True)).advice
    assert traced is not None
    assert traced.startswith("Continue it in its tracer")


def test_who_had_little_of_the_cpu_is_not_named() -> None:
    hog = ChainThread(9, 9, "hog")
    named = ChainPart((SERVER, ROOT), "runnable", 250 * MS, by=hog)
    rest = replace(named, by=None)
    assert "which most often hog (9) had" in finding(named, rest).sentence
    little = replace(named, ns=100 * MS)
    assert "hog" not in finding(little, replace(rest, ns=400 * MS)).text


def test_calls_are_named_by_their_time() -> None:
    sleeps = tuple(
        Sleep("socket_receive", call, (), False, 1, ns * MS, ns * MS)
        for call, ns in (("accept", 1), ("recvfrom", 400), ("write", 99))
    )
    part = ChainPart((ROOT,), "stopped", 500 * MS)
    thread = replace(waiting(part), sleeps=sleeps)
    sample = bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))
    assert " waited for it in recvfrom, write for 500.0 ms." in judge(sample).verdict[0].sentence


def test_wait_that_may_be_idle_is_called_so_with_its_root() -> None:
    polled = Sleep("epoll", "epoll_wait", (), False, 5, TIMED_WINDOW_NS, TIMED_WINDOW_NS)
    part = ChainPart((ROOT,), "blocked", 500 * MS, "clock")
    thread = replace(waiting(part), sleeps=(polled,))
    sample = bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))
    (found, *_) = judge(sample).verdict
    assert found.remark
    assert f"Whether client ({CLIENT}) had work is not known." in found.details


def test_each_root_has_a_finding() -> None:
    roots = [ChainThread(60 + n, 60 + n, f"server{n}") for n in range(5)]
    parts = [ChainPart((root,), "stopped", (490 - n) * MS) for n, root in enumerate(roots)]
    threads = [replace(waiting(part), tid=80 + n) for n, part in enumerate(parts)]
    threads.append(replace(threads[0], tid=99))
    sample = bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))
    verdict = judge(sample).verdict
    named = [each for each in verdict if each.rule == "wait_chain"]
    assert [each.evidence["root_tid"] for each in named] == [60, 61, 62]
    assert [each.tid for each in named] == [80, 81, 82]
    assert named[0].sentence.endswith("for 490.0 ms (1 other thread too).")
    assert named[1].sentence.endswith("for 489.0 ms.")
    assert not any(each.rule.startswith("wait_s") and each.tid < 83 for each in verdict)
    further = [each for each in named if "Further threads that lost time so" in each.text]
    assert further == named[2:]
    assert "Further threads that lost time so, to others: 2." in named[2].details


def workers(state: ChainState, *ns: int, reason: SleepReason = "unknown") -> list[ChainPart]:
    return [
        ChainPart((ChainThread(61 + n, 60, f"w{n}", process="backend"),), state, each * MS, reason)
        for n, each in enumerate(ns)
    ]


def test_threads_of_one_process_are_added_up() -> None:
    found = finding(*workers("blocked", 60, 50, 60, 70, 60, 50, 60, 60, reason="clock"))
    assert found.sentence == (
        "threads of backend (60) slept on a timer while the main thread client (27090) waited for"
        " them in recvfrom for 470.0 ms."
    )
    assert found.evidence["root_pid"] == 60
    assert "root_tid" not in found.evidence


def test_thread_of_a_server_is_named_with_its_process() -> None:
    (part,) = workers("stopped", 450)
    found = finding(part, *workers("running", 0, 40))
    assert found.sentence.startswith("w0 (61) of backend (60) was stopped while the main thread")
    assert (found.advice or "").startswith(
        "kill -CONT 60 resumes it if it is still stopped, and fg"
    )


def test_thread_that_stands_out_is_named_alone() -> None:
    found = finding(*workers("running", 300, 100, 80))
    assert found.sentence.startswith("w0 (61) of backend (60) was on a CPU while the main thread")
    assert "In all it waited for threads of backend (60) for 480.0 ms." in found.details
    found = finding(*workers("running", 260, 180))
    assert found.sentence.startswith("threads of backend (60) were on a CPU while")


def test_states_of_several_threads_are_added_up_too() -> None:
    running = workers("running", 100, 100)
    found = finding(*workers("blocked", 150, 150, reason="clock"), *running)
    assert "Besides, they were on a CPU for 200.0 ms." in found.details
    throttled = finding(*(replace(each, state="throttled", cgroup="/b") for each in running))
    assert throttled.sentence.startswith("threads of backend (60) were throttled by the quota of")


def test_hop_of_several_threads_is_one() -> None:
    parts = [
        replace(part, threads=(ChainThread(81 + n, 80, f"f{n}", process="front"), *part.threads))
        for n, part in enumerate(workers("blocked", 250, 240, reason="clock"))
    ]
    said = "The chain: client (27090) → threads of front (80) → threads of backend (60)."
    assert said in finding(*parts).details


def test_unknown_wait_for_the_root_process_is_apart() -> None:
    process = ChainPart((ChainThread(60, 60, "backend"),), "unknown", 90 * MS, gap="threads")
    found = finding(*workers("blocked", 200, 210, reason="clock"), process)
    said = "It also waited for backend (60) for 90.0 ms; the root of that wait is not known."
    assert said in found.details
    assert "not known whom" not in found.text


def test_blocked_write_is_work() -> None:
    pipe = SleepFile(1, 5, "pipe", "pipe:[5]", peers=(FilePeer(60, "database"),))
    write = Sleep("pipe", "write", (), False, 5, TIMED_WINDOW_NS, TIMED_WINDOW_NS, file=pipe)
    part = ChainPart((ROOT,), "blocked", 500 * MS, "clock")
    thread = replace(waiting(part), sleeps=(write,))
    sample = bare_sample(thread, window=window(duration_ns=TIMED_WINDOW_NS))
    (found, *_) = judge(sample).verdict
    assert found.rule == "wait_chain"
    assert "not known" not in found.text
    assert "It waited for room in the pipe to database (60)." in found.details
    read = replace(write, syscall="read")
    (found, *_) = judge(replace(sample, threads=(replace(thread, sleeps=(read,)),))).verdict
    assert f"Whether client ({CLIENT}) had work is not known." in found.details
