"""The rounds of Open vSwitch's revalidators, as revalidator.bpf.c sees them."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from kernel_delay.errors import NoInputError
from kernel_delay.formatting import NS_PER_MS
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.objects import refusal
from kernel_delay.monitors.revalidator.events import (
    CheckResult,
    FlowCheck,
    FlowChecks,
    FlowResults,
    LeaderTime,
    RevalidatorRound,
    UdpifState,
    together,
)
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.flow_key.text import ufid_text
from kernel_delay.openvswitch.functions import (
    FLOW_CHECKS,
    REMOVED_FLOWS,
    REVALIDATED_FLOWS,
    REVALIDATORS,
    at_functions,
)
from kernel_delay.openvswitch.installed import has_kernel_datapath
from kernel_delay.openvswitch.probes import FLOW_RESULTS, files_with
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, text
from kernel_delay.probes import UserProbe
from kernel_delay.probes.objects import ProbedObject, process_objects
from kernel_delay.probes.triggers import UsdtTrigger

if TYPE_CHECKING:
    from kernel_delay.cdata import Array
    from kernel_delay.openvswitch._ovs_records import (
        FlowCheck as FlowCheckRecord,
    )
    from kernel_delay.openvswitch._ovs_records import (
        FlowChecksPointer,
        RevalidatorRoundPointer,
    )

# 200 rounds and more; a datapath has two a second, or as many as it takes milliseconds.
RING_BYTES = 1 << 18

SWITCHES = "on_sched_switch"
FLOW_PROBES: Mapping[str, UsdtTrigger] = MappingProxyType(
    {
        **REVALIDATED_FLOWS.probes,
        "on_flow_result": FLOW_RESULTS[0],
        "on_flow_sweep_result": FLOW_RESULTS[1],
    }
)

CHECK_RESULTS: Mapping[int, CheckResult] = MappingProxyType(
    {lib.UKEY_KEEP: "kept", lib.UKEY_DELETE: "deleted", lib.UKEY_MODIFY: "modified"}
)

FLOW_CHECKS_PROGRAMS = {*FLOW_CHECKS.probes, *FLOW_CHECKS.functions}

COUNTS_CHECKS = REVALIDATED_FLOWS.probes.keys() | REVALIDATED_FLOWS.functions.keys()
REVALIDATES = COUNTS_CHECKS | FLOW_CHECKS_PROGRAMS


class RevalidatorProbes(Probes):
    """Follows a process's revalidators, at functions where it lacks the probes of the rounds."""

    def __init__(self, pid: int, *, count_flows: bool, slowest: int = 0) -> None:
        """Find the probes of process `pid`; NoInputError if it lacks those, and symbols too.

        Without `count_flows` those that are hit once a flow are left alone. `slowest` is how many
        of a round's checks are reported, 0: they are not timed.
        """
        super().__init__(pid)
        objects = process_objects(pid)
        is_netdev = not has_kernel_datapath(pid)
        self._probes: dict[str, set[str]] = {}
        self._functions: dict[str, UserProbe] = {}
        try:
            for program, trigger in REVALIDATORS.probes.items():
                self._probes[program] = files_with(trigger, objects)
        except NoInputError as error:
            self._probes.clear()
            self._functions |= REVALIDATORS.find_functions(objects, error, is_netdev=is_netdev)
            self.notes.append(at_functions(self._functions, REVALIDATORS))
            if count_flows:
                self._find_flow_functions(objects, error, is_netdev=is_netdev)
            if slowest:
                self._functions |= FLOW_CHECKS.find_functions(objects, error, is_netdev=is_netdev)
        else:
            if count_flows:
                self._find_flow_probes(objects)
            if slowest:
                for program, trigger in FLOW_CHECKS.probes.items():
                    self._probes[program] = files_with(trigger, objects)
        if slowest:
            # Those that time the checks count them too.
            for program in COUNTS_CHECKS:
                self._probes.pop(program, None)
                self._functions.pop(program, None)
        self._decoding = Decoding(self._attached(), slowest)

    def _open(self) -> OvsPrograms:
        return OvsPrograms("revalidator", self._pid, RING_BYTES)

    def _attach(self) -> None:
        programs = self._programs
        for program in programs.object.programs():
            program.autoload = program.name in {*self._attached(), SWITCHES}
        programs.options.time_checks = not FLOW_CHECKS_PROGRAMS.isdisjoint(self._attached())
        programs.load()
        try:
            programs.attach(lambda program: program.attach(), SWITCHES)
        except BpfError as error:
            raise refusal(error) from error
        for name, place in self._functions.items():
            programs.attach_uprobe(name, place, name)
        probes = {**REVALIDATORS.probes, **FLOW_PROBES, **FLOW_CHECKS.probes}
        for name, paths in self._probes.items():
            for path in paths:
                programs.attach_usdt(name, probes[name], path)

    def take(self) -> Iterator[RevalidatorRound]:
        """Take away and yield the rounds that have ended."""
        for data in self._programs.records():
            event = ffi.from_buffer("struct ovs_event *", data)
            if event.type == lib.EVENT_FLOW_CHECKS:
                self._decoding.take_checks(ffi.from_buffer("struct flow_checks *", data))
            else:
                yield self._decoding.round(ffi.from_buffer("struct revalidator_round *", data))

    def missed(self) -> dict[str, int]:
        """How many rounds were lost, and hits of probes missed, since they were attached."""
        functions = {*REVALIDATED_FLOWS.functions, *REMOVED_FLOWS.functions}
        flows = self._attached() & (FLOW_PROBES.keys() | functions)
        checks = self._attached() & FLOW_CHECKS_PROGRAMS
        rounds = self._programs.lost(lib.EVENT_REVALIDATOR_ROUND)
        timed = self._programs.lost(lib.EVENT_FLOW_CHECKS)
        return {
            "revalidator_rounds": rounds
            + sum(map(self._misses, self._attached() - flows - checks)),
            "flow_results": sum(map(self._misses, flows)),
            "flow_checks": timed + sum(map(self._misses, checks)),
        }

    def _attached(self) -> set[str]:
        return {*self._probes, *self._functions}

    def _find_flow_functions(
        self, objects: tuple[ProbedObject, ...], lacking: NoInputError, *, is_netdev: bool
    ) -> None:
        unknown = ["which flows are kept or modified", "why flows are deleted"]
        for followed, lacked in (
            (REVALIDATED_FLOWS, "which flows are translated anew"),
            (REMOVED_FLOWS, "how many flows are deleted"),
        ):
            try:
                self._functions |= followed.find_functions(objects, lacking, is_netdev=is_netdev)
            except NoInputError:
                unknown.append(lacked)
        self.notes.append(f"without USDT probes it is not known {', '.join(unknown)}")

    def _find_flow_probes(self, objects: tuple[ProbedObject, ...]) -> None:
        for program, trigger in FLOW_PROBES.items():
            try:
                self._probes[program] = files_with(trigger, objects)
            except NoInputError as error:
                self.notes.append(f"{error}: what it counts is not known")


class Decoding:
    """Makes rounds of the records of a process, one after the other."""

    def __init__(self, counted: Collection[str], slowest: int = 0) -> None:
        """`counted` are the programs that counted something in them; see RevalidatorProbes."""
        self._counted = counted
        self._slowest = slowest
        # By the udpif, with the start of their round, which is not over.
        self._checks: dict[int, tuple[int, list[FlowChecks]]] = {}
        self._layout_known = False

    def take_checks(self, record: "FlowChecksPointer") -> None:
        """Keep a thread's checks for their round, which comes behind them."""
        start_ns, found = self._checks.get(record.udpif, (0, []))
        if start_ns != record.start_ns:
            found = []
        self._checks[record.udpif] = record.start_ns, [*found, _checks(record)]

    def _checks_of(self, record: "RevalidatorRoundPointer") -> FlowChecks | None:
        if not self._slowest:
            return None
        start_ns, found = self._checks.pop(record.udpif, (0, []))
        return together(found if start_ns == record.start_ns else [], self._slowest)

    def round(self, record: "RevalidatorRoundPointer") -> RevalidatorRound:
        """The round that a record says."""
        datapath = text(record.datapath)
        state = _state(record, self._layout_known)
        self._layout_known |= state is not None
        counted = self._counted
        return RevalidatorRound(
            datapath=datapath or f"{record.udpif:#x}",
            tid=record.event.tid,
            comm=text(record.event.comm),
            start_ns=record.start_ns,
            stop_ns=record.event.time_ns,
            previous_stop_ns=record.previous_stop_ns or None,
            n_flows=record.n_flows,
            dumped=_results(record.dumped) if "on_flow_result" in counted else None,
            swept=_results(record.swept) if "on_flow_sweep_result" in counted else None,
            revalidated=None if REVALIDATES.isdisjoint(counted) else record.revalidated,
            poll_wait_ms=record.poll_wait_ms,
            state=state,
            leader_time=_leader_time(record),
            checks=self._checks_of(record),
            removed=record.removed if REMOVED_FLOWS.functions.keys() <= set(counted) else None,
        )


def _results(places: "Array[int]") -> FlowResults:
    return FlowResults(
        kept=places[lib.UKEY_KEEP],
        deleted=places[lib.UKEY_DELETE],
        modified=places[lib.UKEY_MODIFY],
        other=places[lib.REVAL_RESULTS],
    )


def _checks(record: "FlowChecksPointer") -> FlowChecks:
    slowest = (_check(record, check) for check in record.slowest if check.ns)
    return FlowChecks(
        count=record.n_checks,
        ns=record.checks_ns,
        waited_ns=record.waited_ns if record.waits_known else None,
        slowest=tuple(slowest),
    )


def _check(record: "FlowChecksPointer", check: "FlowCheckRecord") -> FlowCheck:
    first, second, third, fourth = check.ufid
    return FlowCheck(
        tid=record.tid,
        ufid=ufid_text(first, second, third, fourth),
        ns=check.ns,
        waited_ns=check.waited_ns if record.waits_known else None,
        n_packets=check.n_packets,
        age_ms=max(record.event.time_ns // NS_PER_MS - check.created_ms, 0),
        result=CHECK_RESULTS.get(check.result, "other"),
    )


def _state(record: "RevalidatorRoundPointer", layout_known: bool) -> UdpifState | None:
    # Of another layout, chance would have to make all of this hold: the maximum is of what was
    # ever counted, the average of the same, and OVS's own clock starts before the probe. It stops
    # before the probe as well, by more than that if its leader loses the CPU there, or writes to
    # the log that the round was long: so this is asked until it was so once.
    measured_ms = (record.event.time_ns - record.start_ns) // 1_000_000
    least_ms = 1 if layout_known else max(measured_ms - 2, 1)
    plausible = (
        record.is_udpif
        and record.avg_n_flows <= record.max_n_flows >= record.n_flows
        and record.dump_duration_ms >= least_ms
    )
    if not plausible:
        return None
    return UdpifState(
        avg_n_flows=record.avg_n_flows,
        max_n_flows=record.max_n_flows,
        flow_limit=record.flow_limit,
        flow_limit_before=record.flow_limit_before,
        dump_duration_ms=record.dump_duration_ms,
    )


def _leader_time(record: "RevalidatorRoundPointer") -> LeaderTime | None:
    duration_ns = record.event.time_ns - record.start_ns
    if not record.account_known or record.off_cpu_ns > duration_ns:
        return None
    # The kernel's clock of run queues is another than the one that events are dated by.
    runnable_ns = min(record.runnable_ns, record.off_cpu_ns)
    return LeaderTime(
        run_ns=duration_ns - record.off_cpu_ns,
        runnable_ns=runnable_ns,
        blocked_ns=record.off_cpu_ns - runnable_ns,
    )
