"""Packets and messages that were lost in the window: who was to take them, and why that was late.

A loss is certain, so one packet is enough. Why a thread was late is an inference: the state that
took most of its window.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from kernel_delay.analysis.verdict.formatting import counted_for, length, name, percent
from kernel_delay.host.kernel_names import POLLS
from kernel_delay.model import (
    DatapathLosses,
    Finding,
    FlowLimit,
    PacketLosses,
    PortLosses,
    Sample,
    SocketOverrun,
    Thread,
    Who,
)

# From so much of the window on, a state says why a thread was late.
LATE_SHARE = 0.1

# Ports drop single packets for many reasons. One in so many is a finding.
PACKETS_A_DROP = 1000

# A table is full when so much of it is used: entries go meanwhile.
FULL_SHARE = 0.95

# Single packets get no flow while one is made. Of PMD threads' one in so many is a finding.
MISSES_OF_PACKETS = 100

# Of the name of a datapath in user space.
USERSPACE = "netdev@"

# Names in one sentence.
MOST_NAMED = 3


class _Late(Struct, frozen=True):
    """What a thread did instead of taking packets."""

    did: str
    who: Who
    ns: int = 0


def lost_packets(sample: Sample) -> Iterator[Finding]:
    """Yield a finding for each kind of loss, and object of it."""
    if sample.packet_losses is not None:
        for say in LOSS_RULES.values():
            yield from say(sample, sample.packet_losses)


class _Loss(Struct, frozen=True):
    """What a finding says of a loss."""

    rule: str
    sentence: str
    details: tuple[str, ...]
    advice: str
    evidence: Mapping[str, int]
    who: Who = "limit"
    remark: bool = False


def _finding(
    sample: Sample, loss: _Loss, late: _Late | None = None, thread: Thread | None = None
) -> Finding:
    late_ns = late.ns if late else 0
    return Finding(
        rule=loss.rule,
        who=late.who if late else loss.who,
        share=min(1.0, late_ns / sample.window.duration_ns),
        tid=thread.tid if thread else sample.target.pid,
        text=" ".join((loss.sentence, *loss.details, loss.advice)),
        remark=loss.remark,
        evidence={"lost_ns": late_ns, **loss.evidence},
        advice=loss.advice,
        sentence=loss.sentence,
        details=loss.details,
    )


def _late(sample: Sample, thread: Thread | None) -> _Late | None:
    """The state that took most of the thread's window, besides waiting for messages."""
    time = thread.time if thread else None
    if thread is None or time is None:
        return None
    # Of short sleeps it is not known where they were: in poll(2) as likely as not.
    blocked = [
        sleep
        for sleep in thread.sleeps
        if sleep.syscall not in POLLS and sleep.reason not in ("socket_receive", "short")
    ]
    longest = max(blocked, key=lambda sleep: sleep.ns, default=None)
    where = f" in {longest.syscall}" if longest and longest.syscall else ""
    states = (
        _Late("could run but had no CPU", "other-process", time.ready_ns),
        _Late("was stopped", "person", time.stopped_ns),
        _Late("was throttled by its cgroup's CPU quota", "limit", time.throttled_ns),
        _Late("was frozen", "person", time.frozen_ns),
        _Late("ran its program", "program", time.user_ns),
        _Late("ran in the kernel", "kernel", time.kernel_ns),
        _Late("served interrupts", "kernel", time.hard_irq_ns + time.soft_irq_ns),
        _Late(f"was blocked{where}", "program", sum(sleep.ns for sleep in blocked)),
    )
    worst = max(states, key=lambda late: late.ns)
    return worst if worst.ns >= LATE_SHARE * sample.window.duration_ns else None


def _reason(sample: Sample, thread: Thread, late: _Late | None) -> str:
    """Say why the thread was late; if it was not, the buffer was too small for a burst."""
    who = f"Its reader, {name(sample, thread)},"
    if late is None:
        return f"{who} was not late for long: more came at once than its buffer holds."
    return f"{who} {late.did} for {percent(late.ns, sample)}."


def _advice(late: _Late | None, otherwise: str) -> str:
    if late is None or late.who in ("program", "kernel"):
        return otherwise
    return "Let it run: its own line or table says who keeps it from that."


def _thread(sample: Sample, overrun: SocketOverrun) -> Thread | None:
    """Who reads a socket: its handler, who slept on it, or the only thread."""
    alone = sample.threads[0] if len(sample.threads) == 1 else None
    for thread in sample.threads:
        if overrun.tid == thread.tid:
            return thread
        if any(sleep.file and sleep.file.inode == overrun.inode for sleep in thread.sleeps):
            return thread
    return None if overrun.tid else alone


def _say_upcalls(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    for datapath in losses.datapaths:
        if datapath.lost:
            yield _upcalls(sample, losses, datapath)


def _upcalls(sample: Sample, losses: PacketLosses, datapath: DatapathLosses) -> Finding:
    sentence = (
        f"{datapath.name} lost {datapath.lost:,} upcalls: these packets had no flow, and did not"
        " reach Open vSwitch."
    )
    evidence = {"lost": datapath.lost, "missed": datapath.missed}
    details = []
    if ports := _listed((port.name, port.failed_upcalls or 0) for port in datapath.ports):
        details.append(f"They came in at {ports}.")
    if errors := [each for each in sample.upcalls or () if each.error]:
        details.append(
            f"The kernel's errors: {', '.join(f'{e.name or e.error} {e.count:,}' for e in errors)}."
        )
    overruns = [each for each in losses.sockets if each.protocol == "GENERIC" and each.tid]
    if datapath.name.startswith(USERSPACE):
        advice = "See ovs-appctl coverage/show and dpif-netdev/pmd-perf-show."
        details += [*_drop_events(losses), *counted_for(sample, losses.asked_ns)]
        return _finding(sample, _Loss(UPCALLS_LOST, sentence, tuple(details), advice, evidence))
    details += counted_for(sample, losses.counted_ns)
    advice = "Add handlers (other_config:n-handler-threads), or see why flows are missing."
    if not overruns:
        return _finding(sample, _Loss(UPCALLS_LOST, sentence, tuple(details), advice, evidence))
    worst = max(overruns, key=lambda each: each.drops)
    evidence["overruns"] = sum(each.drops for each in overruns)
    thread = _thread(sample, worst)
    late = _late(sample, thread)
    if thread is not None:
        details.append(f"{_socket(worst)} overran {worst.drops:,} times.")
        details.append(_reason(sample, thread, late))
    loss = _Loss(UPCALLS_LOST, sentence, tuple(details), _advice(late, advice), evidence)
    return _finding(sample, loss, late, thread)


def _drop_events(losses: PacketLosses) -> Iterator[str]:
    """What Open vSwitch's datapath in user space says of its drops."""
    prefix = "datapath_drop_"
    events = ((each.removeprefix(prefix), n) for each, n in losses.events.items() if prefix in each)
    if listed := _listed(events):
        yield f"Its own counts: {listed}."


def _listed(counts: Iterator[tuple[str, int]]) -> str:
    """The largest, by name."""
    found = sorted(((n, each) for each, n in counts if n), reverse=True)
    return ", ".join(f"{each} ({n:,})" for n, each in found[:MOST_NAMED])


def _socket(overrun: SocketOverrun) -> str:
    port = f" of port {overrun.port}" if overrun.port else ""
    return f"Netlink socket {overrun.portid}{port}"


def _say_overruns(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    """Those of upcalls are a part of the datapath's losses."""
    upcalls = any(datapath.lost for datapath in losses.datapaths)
    for overrun in losses.sockets:
        if overrun.tid and upcalls:
            continue
        thread = _thread(sample, overrun)
        late = _late(sample, thread)
        sentence = (
            f"a netlink socket of {sample.target.comm} (NETLINK_{overrun.protocol}, port ID"
            f" {overrun.portid}) overran: it lost {overrun.drops:,} messages."
        )
        details = [_reason(sample, thread, late)] if thread else []
        details += counted_for(sample, losses.counted_ns)
        advice = "Read it sooner, or raise its SO_RCVBUF (net.core.rmem_max)."
        evidence = {"lost": overrun.drops, "inode": overrun.inode}
        loss = _Loss(NETLINK_OVERRUN, sentence, tuple(details), _advice(late, advice), evidence)
        yield _finding(sample, loss, late, thread)


def _say_conntrack(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    if own := losses.events.get("conntrack_full"):
        sentence = f"the conntrack table of Open vSwitch itself was full: {own:,} packets."
        advice = "Raise it: ovs-appctl dpctl/ct-set-maxconns."
        since = counted_for(sample, losses.asked_ns)
        yield _finding(sample, _Loss(CONNTRACK_FULL, sentence, since, advice, {"lost": own}))
    found = losses.conntrack
    if found is None or not (found.dropped or found.early_dropped):
        return
    evidence = {"lost": found.dropped, "early_dropped": found.early_dropped}
    evidence["insert_failed"] = found.insert_failed
    is_full = found.limit is not None and found.entries >= FULL_SHARE * found.limit
    limit = "; its limit is not known" if found.limit is None else f" of at most {found.limit:,}"
    if is_full or found.early_dropped:
        lost = [f"{found.dropped:,} packets were dropped"] if found.dropped else []
        if found.early_dropped:
            lost.append(f"{found.early_dropped:,} entries were deleted early")
        sentence = f"conntrack's table is full: {' and '.join(lost)} in this network namespace."
        advice = "Raise net.netfilter.nf_conntrack_max, or shorten its timeouts."
    else:
        sentence = f"conntrack dropped {found.dropped:,} packets in this network namespace."
        advice = "See conntrack -S and the kernel's log."
    details = (
        f"It has {found.entries:,} entries{limit}.",
        *counted_for(sample, losses.counted_ns),
    )
    yield _finding(sample, _Loss(CONNTRACK_FULL, sentence, details, advice, evidence))


def _say_limits(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    hits = losses.events.get("upcall_flow_limit_hit", 0)
    for each in losses.flow_limits:
        is_full = each.flows >= FULL_SHARE * each.limit
        # Flows that were idle for 100 ms are gone soon: one datapath need not be full any more.
        # Of several it is not known which was.
        is_known = is_full or len(losses.flow_limits) == 1
        deleted = losses.events.get("upcall_flow_limit_kill", 0) if is_known else 0
        packets, at_most = _without_flow(losses, each, hits if is_known else 0)
        shrank = each.limit_before is not None and each.limit < each.limit_before
        remark = False
        advice = "See kernel-delay revalidator; the most is other_config:flow-limit."
        details = [*_limit_details(each, shrank=shrank)]
        if packets and (hits or is_full):
            missed = f"{at_most}{packets:,} packets got no flow, and the next ones miss again"
            sentence = f"{each.datapath} reached its flow limit: {missed}."
        elif deleted:
            what = "more than twice as many flows as its limit: flows in use were deleted"
            sentence = f"{each.datapath} had {what}."
        elif packets:
            sentence = (
                f"{each.datapath} made no flow of {packets:,} packets: the next ones miss again."
            )
            details.append("Open vSwitch did not count the limit as reached.")
            advice = "See ovs-appctl coverage/show, and upcall/show."
            remark = packets * MISSES_OF_PACKETS < _received(sample) or not _received(sample)
        elif shrank:
            sizes = f"from {each.limit_before:,} to {each.limit:,}"
            sentence, remark = f"the flow limit of {each.datapath} shrank {sizes}.", True
        else:
            continue
        if deleted and packets:
            details.append("Above twice the limit, revalidators delete any flow.")
        evidence = {"limit": each.limit, "flows": each.flows, "dump_ns": each.dump_ns}
        evidence |= {"hits": hits, "packets": packets, "deletions_of_all": deleted}
        details += counted_for(sample, losses.asked_ns)
        loss = _Loss(FLOW_LIMIT, sentence, tuple(details), advice, evidence, remark=remark)
        yield _finding(sample, loss)


def _received(sample: Sample) -> int:
    """How many packets PMD threads received; 0 where others receive."""
    return sum(thread.pmd.packets for thread in sample.threads if thread.pmd)


def _without_flow(losses: PacketLosses, limit: FlowLimit, hits: int) -> tuple[int, str]:
    """How many packets got no flow, and "up to " where that is not known exactly.

    Revalidators count a hit for each batch of flows that they check meanwhile, also without
    packets (ofproto/ofproto-dpif-upcall.c:revalidate(), Open vSwitch 2.17 to 4.0).
    """
    datapath = next((each for each in losses.datapaths if each.name == limit.datapath), None)
    if datapath is None:
        return hits, "up to "
    if datapath.without_flow is not None:
        return datapath.without_flow, ""
    return min(hits, max(0, datapath.missed - datapath.lost)), "up to "


def _limit_details(each: FlowLimit, *, shrank: bool) -> Iterator[str]:
    dump = f"the last dump of all took {length(each.dump_ns)}"
    yield f"The limit is {each.limit:,} now, for {each.flows:,} flows; {dump}."
    if shrank:
        yield "The limit shrinks if a dump takes longer than 1.3 s, or is set."


def _say_ports(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    for datapath in losses.datapaths:
        ports = [port for port in datapath.ports if _drops(port)]
        if not ports:
            continue
        worst = max(ports, key=_drops)
        sentence = (
            f"port {worst.name} of {datapath.name} dropped {worst.rx_dropped:,} received and"
            f" {worst.tx_dropped:,} sent packets, of {worst.packets + _drops(worst):,}."
        )
        others = _listed((port.name, _drops(port)) for port in ports if port is not worst)
        details = [f"Other ports: {others}."] if others else []
        is_asked = datapath.name.startswith(USERSPACE)
        details += counted_for(sample, losses.asked_ns if is_asked else losses.counted_ns)
        loss = _Loss(
            PORT_DROPS,
            sentence,
            tuple(details),
            f"See ovs-vsctl get Interface {worst.name} statistics, and ip -s -s link.",
            {"lost": sum(map(_drops, ports)), "rx": worst.rx_dropped, "tx": worst.tx_dropped},
            who="kernel",
            remark=all(_drops(port) * PACKETS_A_DROP < port.packets for port in ports),
        )
        yield _finding(sample, loss)


def _drops(port: PortLosses) -> int:
    return port.rx_dropped + port.tx_dropped


def _say_port_overruns(sample: Sample, losses: PacketLosses) -> Iterator[Finding]:
    """A port of type system of a datapath in user space is polled by the main thread.

    dpif_netdev_run() of lib/dpif-netdev.c, Open vSwitch 2.17 to 4.0.
    """
    if not losses.port_overruns:
        return
    by_port: dict[str, int] = {}
    for each in losses.port_overruns:
        port = each.port or (f"of device {each.ifindex}" if each.ifindex else "of all devices")
        by_port[port] = by_port.get(port, 0) + each.drops
    worst = max(by_port, key=lambda each: by_port[each])
    sentence = (
        f"port {worst} lost {by_port[worst]:,} packets that came in: the packet socket (AF_PACKET)"
        f" by which {sample.target.comm} receives them had no room."
    )
    others = _listed((port, drops) for port, drops in by_port.items() if port != worst)
    details = [f"Other ports: {others}."] if others else []
    thread = next((each for each in sample.threads if each.tid == sample.target.pid), None)
    late = _late(sample, thread)
    if thread is not None:
        details.append(_reason(sample, thread, late))
    details += counted_for(sample, losses.counted_ns)
    advice = "Let PMD threads receive there (AF_XDP or DPDK), or the kernel's datapath."
    evidence = {"lost": sum(by_port.values()), "port_lost": by_port[worst]}
    loss = _Loss(PORT_OVERRUN, sentence, tuple(details), _advice(late, advice), evidence)
    yield _finding(sample, loss, late, thread)


PORT_OVERRUN = "port_overrun"
UPCALLS_LOST, NETLINK_OVERRUN = "upcalls_lost", "netlink_overrun"
CONNTRACK_FULL, FLOW_LIMIT, PORT_DROPS = "conntrack_full", "flow_limit", "port_drops"

LOSS_RULES: Mapping[str, Callable[[Sample, PacketLosses], Iterator[Finding]]] = MappingProxyType(
    {
        UPCALLS_LOST: _say_upcalls,
        NETLINK_OVERRUN: _say_overruns,
        CONNTRACK_FULL: _say_conntrack,
        FLOW_LIMIT: _say_limits,
        PORT_DROPS: _say_ports,
        PORT_OVERRUN: _say_port_overruns,
    }
)
"""By their names; docs/open-vswitch/lost-packets.md says what each measures."""
