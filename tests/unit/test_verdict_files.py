"""What a verdict says of the file that a thread waited on, and of who has its other end."""

from typing import Any

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.analysis.verdict.wait_files import main_file
from kernel_delay.model import (
    FilePeer,
    Finding,
    Sample,
    Sleep,
    SleepFile,
    SleepReason,
    Thread,
    Waker,
)
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window
from tests.unit.verdict_samples import MS, PID, calls

SERVER, OWN = FilePeer(4240, "server"), FilePeer(PID, "client")
TCP = SleepFile(
    5, 7, "tcp", "127.0.0.1:40000", peer_address="127.0.0.1:5432", peers=(SERVER,), is_client=True
)
PIPE = SleepFile(3, 8, "pipe", "pipe:[8]", peers=(SERVER,))
RESUMES = (
    "kill -CONT 4240 resumes it if it is still stopped, and fg in its shell if it uses its terminal"
    " in the background."
)


def waited(file: SleepFile | None, call: str = "recvfrom", ms: int = 480) -> Sleep:
    reason: SleepReason = "pipe" if file is None or file.kind == "pipe" else "socket_receive"
    return Sleep(reason, call, (), False, 4, ms * MS, 99 * MS, file=file)


def found(*sleeps: Sleep, sent: int = 0, tid: int = PID) -> Finding:
    """The first of the verdict on a thread that slept so, and sent so often."""
    syscalls = (calls("sendto", 1, count=sent),) if sent else ()
    thread = replace(timed_thread(tid, "app"), sleeps=sleeps, syscalls=syscalls)
    return judge_first(sample_of(thread))


def sample_of(*threads: Thread) -> Sample:
    return bare_sample(*threads, window=window(duration_ns=TIMED_WINDOW_NS))


def judge_first(sample: Sample) -> Finding:
    return judge(sample).verdict[0]


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (("dev_ioctl", "sock_ioctl"), "it was rtnl_mutex, asked for in the kernel's dev_ioctl."),
        (
            ("schedule", "__mutex_lock.constprop.0", "cgroup_kn_lock_live"),
            "it was asked for in the kernel's cgroup_kn_lock_live.",
        ),
        (
            ("ovs_flow_cmd_new", "genl_family_rcv_msg_doit.isra.0", "genl_rcv_msg"),
            "it was ovs_mutex, asked for in the kernel's ovs_flow_cmd_new.",
        ),
        (
            ("genl_rcv_msg", "netlink_rcv_skb", "genl_rcv"),
            "it was genl_mutex, asked for in the kernel's genl_rcv_msg.",
        ),
        (
            ("ext4_buffered_write_iter.cold", "vfs_write"),
            "it was an inode's i_rwsem, asked for in the kernel's ext4_buffered_write_iter.",
        ),
        (("do_renameat2",), "it was asked for in the kernel's do_renameat2."),
    ],
)
def test_kernel_lock_has_the_function_that_asked_for_it(stack: tuple[str, ...], said: str) -> None:
    most = Sleep("kernel_lock", "ioctl", stack, False, 4, 360 * MS, 99 * MS)
    other = replace(most, ns=90 * MS, stack=("devinet_ioctl",))
    finding = found(other, most)
    assert f"For 80 % of that time {said}" in finding.text
    assert finding.advice == "Option --chains shows what the lock's owner did meanwhile."
    short = replace(most, stack=())
    assert "asked for" not in found(short).text


@pytest.mark.parametrize(
    ("call", "awaited"),
    [
        ("semtimedop", "a System V semaphore in"),
        ("msgrcv", "a message in a System V queue in"),
        ("mq_timedsend", "room in a POSIX message queue in"),
        ("ipc", "a System V semaphore or a message queue in"),
    ],
)
def test_queue_is_named_by_its_call(call: str, awaited: str) -> None:
    sleep = Sleep("semaphore", call, (), False, 4, 480 * MS, 99 * MS)
    assert f"waited for {awaited} {call}" in found(sleep).text


@pytest.mark.parametrize(
    ("reason", "call", "awaited"),
    [
        ("terminal", "write", "the pseudo-terminal to server (4240)"),
        ("terminal", "read", "data on the pseudo-terminal from server (4240)"),
        ("poll", "ppoll", "events on the pseudo-terminal with server (4240)"),
    ],
)
def test_terminal_has_who_has_its_other_end(reason: SleepReason, call: str, awaited: str) -> None:
    """A kernel's worker passes on what that writes, and is not who is waited for."""
    worker = Waker("thread", 99, 99, "kworker/u8:3", 4, 480 * MS)
    file = SleepFile(0, 3, "device", "/dev/pts/0", peers=(SERVER,))
    sleep = Sleep(reason, call, (), False, 4, 480 * MS, 99 * MS, wakers=(worker,), file=file)
    assert f"waited for {awaited} in {call} for" in found(sleep).text


def test_eventfd_has_who_shares_it() -> None:
    file = SleepFile(4, 5, "eventfd", "anon_inode:[eventfd]", peers=(SERVER,))
    sleep = Sleep("eventfd", "read", (), False, 4, 480 * MS, 99 * MS, file=file)
    assert "waited for the eventfd shared with server (4240) in read for" in found(sleep).text


@pytest.mark.parametrize(
    ("call", "peer", "awaited"),
    [
        ("mq_timedreceive", SERVER, "a message in the POSIX queue shared with server (4240)"),
        ("mq_timedsend", SERVER, "room in the POSIX queue shared with server (4240)"),
        ("mq_timedsend", OWN, "room in a POSIX queue of its own process"),
    ],
)
def test_posix_queue_has_who_shares_it(call: str, peer: FilePeer, awaited: str) -> None:
    file = SleepFile(4, 5, "file", "/queue", peers=(peer,))
    sleep = Sleep("semaphore", call, (), False, 4, 480 * MS, 99 * MS, file=file)
    assert f"waited for {awaited} in {call} for" in found(sleep).text


def test_who_stopped_the_other_user_of_a_queue_is_to_let_it_go_on() -> None:
    file = SleepFile(4, 5, "file", "/queue", peers=(replace(SERVER, stopped=True),))
    sleep = Sleep("semaphore", "mq_timedreceive", (), False, 4, 480 * MS, 99 * MS, file=file)
    finding = found(sleep)
    assert finding.who == "person"
    assert "kill -CONT 4240" in (finding.advice or "")


@pytest.mark.parametrize(("seconds", "asked"), [(0.4, True), (1.4, True), (9, False)])
def test_who_sent_nothing_on_a_connection_asked_nothing(seconds: float, asked: bool) -> None:
    """What it was sent there, it may write elsewhere. Files are looked at after the window."""
    file = replace(TCP, last_sent_ns=round(seconds * 1e9))
    finding = found(waited(file), sent=4)
    assert finding.remark != asked
    assert ("It is the client" in finding.text) == asked


def test_who_is_woken_by_its_own_threads_was_not_answered() -> None:
    """EPOLL_CTL_MOD of one that is done with the answer wakes who waits for the next."""
    own = Waker("thread", PID + 1, PID, "worker", 4, 400 * MS)
    finding = found(replace(waited(TCP), wakers=(own,)), sent=4)
    assert finding.remark
    assert "It is the client" not in finding.text


def test_a_client_that_sent_requests_surely_waited_for_answers() -> None:
    finding = found(waited(TCP), sent=4)
    assert (finding.rule, finding.who) == ("wait_socket_receive", "other-process")
    assert not finding.remark
    assert finding.evidence["peer_pid"] == 4240
    assert "waited for data on the TCP connection from server (4240) in recvfrom" in finding.text
    assert finding.details[-1] == "It is the client, and called sendto 4 times."
    assert finding.advice is not None
    assert "--chains" in finding.advice


@pytest.mark.parametrize(
    ("held_back", "said"),
    [
        (
            {"held_back": 100},
            "The kernel held back 100 bytes that it sent (Nagle). That lasts until server (4240)"
            " acknowledges earlier ones, which can take 40 ms.",
        ),
        (
            {"peer_held_back": 50},
            "The kernel held back 50 bytes that server (4240) sent (Nagle). That lasts until the"
            " process that waits acknowledges",
        ),
    ],
)
def test_held_back_bytes_have_their_remedy(held_back: dict[str, int], said: str) -> None:
    finding = found(waited(replace(TCP, **held_back)), sent=4)
    assert said in finding.text
    assert finding.who == "program"
    assert finding.advice is not None
    assert finding.advice.startswith("Set TCP_NODELAY")


def test_slow_server_is_not_what_is_held_back() -> None:
    """Of waits of half a second no delayed acknowledgement is the cause: at most 200 ms."""
    once = replace(waited(replace(TCP, held_back=100)), count=1)
    finding = found(once, sent=4)
    assert "The kernel held back 100 bytes" in finding.text
    assert finding.who == "other-process"
    assert "TCP_NODELAY" not in finding.text


def test_stopped_server_is_more_than_what_is_held_back() -> None:
    stopped = replace(TCP, peers=(replace(SERVER, stopped=True),), held_back=100)
    assert found(waited(stopped), sent=4).advice == RESUMES


@pytest.mark.parametrize("sent", [0, 1])
def test_client_that_sent_little_may_have_no_work(sent: int) -> None:
    finding = found(waited(TCP), sent=sent)
    assert finding.remark
    assert "from server (4240)" in finding.text
    assert finding.text.endswith("Whether it had work to do is not known.")


@pytest.mark.parametrize("held", [{"stopped": True}, {"freezers": ("/a/cgroup.freeze",)}])
def test_client_that_is_held_owes_its_server_nothing(held: dict[str, Any]) -> None:
    of_client = replace(TCP, is_client=False, peers=(replace(SERVER, **held),))
    finding = found(waited(of_client))
    assert not finding.remark
    assert finding.who == "person"
    finding = found(waited(replace(of_client, is_server=True)))
    assert finding.remark
    assert finding.who != "person"
    assert finding.text.endswith("Whether it had work to do is not known.")
    # But it may not take what the server wrote.
    finding = found(waited(replace(of_client, is_server=True), "sendto"))
    assert finding.who == "person"


def test_server_waiting_for_its_client_may_have_no_work() -> None:
    """It answers as often as it waits."""
    finding = found(waited(replace(TCP, is_client=False)), sent=4)
    assert finding.remark
    assert finding.text.endswith("Whether it had work to do is not known.")


def test_stopped_process_at_the_other_end_is_a_cause() -> None:
    stopped = replace(PIPE, peers=(replace(SERVER, stopped=True),))
    finding = found(waited(stopped, "read"))
    assert not finding.remark
    assert finding.who == "person"
    assert "waited for the pipe from server (4240) in read" in finding.text
    assert "server (4240) was stopped at the end, by a signal." in finding.details
    assert finding.advice == RESUMES


@pytest.mark.parametrize(
    ("freezer", "word"),
    [("/sys/fs/cgroup/a b/cgroup.freeze", "0"), ("/sys/fs/cgroup/a b/freezer.state", "THAWED")],
)
def test_frozen_process_at_the_other_end_is_a_cause(freezer: str, word: str) -> None:
    frozen = replace(PIPE, peers=(replace(SERVER, freezers=(freezer,)),))
    finding = found(waited(frozen, "read"))
    assert not finding.remark
    assert finding.who == "person"
    assert "server (4240) was frozen at the end, by its cgroup's freezer." in finding.details
    assert finding.advice == f"Thaw it: echo {word} >'{freezer}'"


def test_server_that_sleeps_itself_is_said_to() -> None:
    said = (
        "All threads of server (4240) slept at the end, in polls, futexes or accept: it had nothing"
        " to send, or waited."
    )
    asleep = replace(TCP, peers=(replace(SERVER, asleep=True),))
    assert said in found(waited(asleep), sent=4).details
    assert said not in found(waited(TCP), sent=4).details


def test_one_of_several_stopped_processes_is_not_blamed() -> None:
    peers = (replace(SERVER, stopped=True), FilePeer(4241, "other"))
    for file in (replace(PIPE, peers=peers), replace(PIPE, peers=peers[:1], more_peers=True)):
        finding = found(waited(file, "read"))
        assert finding.remark
        assert "stopped" not in finding.text
        assert "peer_pid" not in finding.evidence
        assert "It waited for the pipe from server (4240) or" in finding.text


def test_process_that_only_inherited_an_end_is_not_blamed() -> None:
    """Who ended the waits has the other end too, or had it."""
    stopped = replace(SERVER, stopped=True)
    own = Waker("thread", 9, PID, "producer", 9, 450 * MS)
    by_own = replace(waited(replace(PIPE, peers=(stopped,)), "read"), wakers=(own,))
    both = replace(PIPE, peers=(stopped, FilePeer(PID, "app")))
    for slept, said in (
        (by_own, "waited for a pipe in read for"),
        (replace(by_own, file=both), "It waited for the pipe from server (4240) or its own"),
        (waited(both, "read"), "It waited for the pipe from server (4240) or its own process."),
    ):
        finding = found(slept)
        assert finding.remark
        assert said in finding.text
        assert "stopped" not in finding.text


def test_stopped_process_that_ended_waits_is_a_cause() -> None:
    stopped = replace(PIPE, peers=(replace(SERVER, stopped=True),))
    server = Waker("thread", 4240, 4240, "server", 9, 450 * MS)
    finding = found(replace(waited(stopped, "read"), wakers=(server,)))
    assert finding.who == "person"
    assert "waited for the pipe from server (4240) in read" in finding.text


def test_who_writes_to_a_pipe_waits_for_its_reader() -> None:
    finding = found(waited(PIPE, "write"))
    assert "waited for room in the pipe to server (4240) in write" in finding.text


def test_a_pipe_within_the_process_names_no_other() -> None:
    finding = found(waited(replace(PIPE, peers=(FilePeer(PID, "app"),)), "read"))
    assert "waited for the pipe from its own process in read" in finding.text


def test_peer_on_another_machine_is_named_by_address() -> None:
    remote = replace(TCP, peers=(), peer_address="10.0.0.2:5432")
    assert "data on the TCP connection from 10.0.0.2:5432 in recvfrom" in found(waited(remote)).text


def test_most_of_several_files_is_named_beside() -> None:
    finding = found(waited(TCP, ms=300), waited(replace(TCP, fd=6, peers=()), ms=180))
    assert "waited for data on a socket in recvfrom" in finding.text
    assert "For 62 % of that time it waited for data on the TCP connection" in finding.text


def test_connections_to_one_server_are_one() -> None:
    slept = [waited(TCP, ms=200), waited(replace(TCP, fd=6, inode=9), ms=280)]
    main = main_file(slept)
    assert main is not None
    assert main.is_sure
    assert main.file.fd == 6


@pytest.mark.parametrize("file", [None, SleepFile(5, 7)])
def test_a_file_that_is_not_known_changes_nothing(file: SleepFile | None) -> None:
    slept = replace(waited(PIPE, "read"), file=file)
    assert main_file([slept]) is None
    assert "waited for a pipe in read for" in found(slept).text


def test_the_thread_whose_peer_is_known_is_named_first() -> None:
    idle = replace(timed_thread(8, "acceptor"), sleeps=(replace(waited(TCP, ms=490), file=None),))
    worker = replace(timed_thread(9, "worker"), sleeps=(waited(TCP),))
    assert judge_first(sample_of(idle, worker)).tid == 9


def test_a_file_on_a_disk_is_named() -> None:
    file = SleepFile(5, 7, "file", "/var/lib/data/" + 60 * "x")
    finding = found(Sleep("disk", "fsync", (), True, 4, 100 * MS, 99 * MS, file=file))
    assert f"The file is …{59 * 'x'}." in finding.details


def polled(file: SleepFile | None, ms: int = 480) -> Sleep:
    """Polls of one file, which packets ended."""
    packet = Waker("soft_irq", 0, 0, "", 4, ms * MS)
    return Sleep("poll", "poll", (), False, 4, ms * MS, 99 * MS, (packet,), file=file)


def test_client_that_polls_one_connection_waits_for_the_server() -> None:
    finding = found(polled(TCP), sent=4)
    assert (finding.rule, finding.who) == ("wait_poll", "other-process")
    assert not finding.remark
    assert "waited for events on the TCP connection to server (4240) in poll" not in finding.text
    assert "waited for events on the TCP connection to server (4240) for" in finding.text
    assert "It is the client, and called sendto 4 times." in finding.details


@pytest.mark.parametrize("file", [None, PIPE, replace(TCP, is_client=False)])
def test_poll_of_clients_or_nobody_known_is_sleep(file: SleepFile | None) -> None:
    assert found(polled(file), sent=4).rule == "asleep"


@pytest.mark.parametrize("held", [{"stopped": True}, {"freezers": ("/a/cgroup.freeze",)}])
def test_poll_of_a_held_process_is_a_cause(held: dict[str, object]) -> None:
    finding = found(polled(replace(PIPE, peers=(replace(SERVER, **held),))))
    assert (finding.rule, finding.who) == ("wait_poll", "person")
    assert not finding.remark
    assert "events on the pipe with server (4240)" in finding.text


def test_poll_of_other_files_too_is_sleep() -> None:
    assert found(polled(TCP, 300), polled(None, 190), sent=4).rule == "asleep"


def test_client_of_connections_that_are_over_is_one() -> None:
    """Another process may have served these, at the same address."""
    over = replace(TCP, inode=8, peers=())
    finding = found(waited(TCP, ms=300), waited(over, ms=180), sent=8)
    assert not finding.remark
    said = "For 62 % of that time it waited for data on the TCP connection from server (4240)."
    assert said in finding.details
    assert "It is the client, and called sendto 8 times." in finding.details
    elsewhere = replace(over, peer_address="127.0.0.1:80")
    assert found(waited(TCP, ms=300), waited(elsewhere, ms=180), sent=8).remark


def test_socket_that_is_not_known_gets_the_advice_to_follow_chains() -> None:
    finding = found(waited(None, "recvfrom"))
    assert finding.advice is None
    unknown = replace(waited(TCP), file=None)
    assert found(unknown).advice == f"To see whom it waits for: kernel-delay -p {PID} --chains"
    assert found(unknown, tid=PID + 1).advice is None
