"""The user's rights and the machine's limits: facts of this process, and what they mean."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from kernel_delay.commands.check_findings import CheckFinding
from kernel_delay.host import cgroups
from kernel_delay.host.preflight import (
    CAP_DAC_READ_SEARCH,
    CAP_SYS_ADMIN,
    CAP_SYS_PTRACE,
    CAP_SYSLOG,
    CONTAINER_OPTIONS,
    LESS_PARANOID,
    LOCKDOWN,
    OUTSIDE_TIME_NAMESPACE,
    PERFMON_LEVEL,
    SECCOMP_MODE_FILTER,
    Reason,
    holds,
    in_first_cgroup_namespace,
    in_first_user_namespace,
    missing_capabilities,
    monotonic_offset_ns,
    perf_event_paranoid,
    process_status,
)
from kernel_delay.host.privileges import DENIED_CALLS, EVENTS, PROCESS
from kernel_delay.host.target import PidNamespace, pid_namespace
from kernel_delay.loader.features import perf_event_error, takes_perf_events
from kernel_delay.loader.objects import why_forbidden

# Which actions a filter may have, seccomp(2): from Linux 4.14 on, with CONFIG_SECCOMP_FILTER.
SECCOMP_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")

AS_ROOT = f"run as root, in a container with {CONTAINER_OPTIONS}"

NO_TRIGGERS = "no tracepoint, function or probe can be a trigger"

# Beside CAP_BPF and CAP_PERFMON: what there is not without each.
CAPABILITY_COSTS = (
    (
        "CAP_SYS_ADMIN",
        CAP_SYS_ADMIN,
        "before Linux 6.14 nothing can be measured; upcalls and datapath-ops never, nor can"
        " tracepoints be triggers unless tracefs is mounted",
    ),
    (
        "CAP_SYS_PTRACE",
        CAP_SYS_PTRACE,
        "only processes of this user that have no more capabilities can be measured",
    ),
    (
        "CAP_DAC_READ_SEARCH",
        CAP_DAC_READ_SEARCH,
        "files of other users' processes can't be read: functions may have no names",
    ),
    ("CAP_SYSLOG", CAP_SYSLOG, "functions of the kernel have no names in stacks"),
)


class MachineFacts(Struct, frozen=True):
    """What /proc and /sys say of this process, and perf_event_open(2).

    `cap_eff` and `seccomp` are the fields of /proc/self/status; `lockdown`
    the text of its file, None where there is none. `has_filters`: the kernel
    has filters of system calls. `pid_namespace` is "foreign" where /proc is
    not of this process's own. `monotonic_offset_ns` is that of its time
    namespace, None where it is not known. `cgroups`: whether any hierarchy is
    mounted, None where its paths are not the machine's. `perf_event_paranoid`
    is that sysctl's level. `perf_events_refused`: why this user may open no
    perf event, None where that is not known or the rights for BPF are missing.
    """

    cap_eff: str
    first_user_namespace: bool
    seccomp: str
    has_filters: bool
    lockdown: str | None
    pid_namespace: PidNamespace
    monotonic_offset_ns: int | None
    cgroups: bool | None
    perf_event_paranoid: int
    perf_events_refused: Reason | None


def read_machine_facts() -> MachineFacts:
    """Read them; nothing here needs any right."""
    return MachineFacts(
        cap_eff=process_status("CapEff"),
        first_user_namespace=in_first_user_namespace(),
        seccomp=process_status("Seccomp"),
        has_filters=SECCOMP_ACTIONS.exists(),
        lockdown=_read(LOCKDOWN),
        pid_namespace=pid_namespace(),
        monotonic_offset_ns=monotonic_offset_ns(Path("/proc/self")),
        cgroups=cgroups.are_mounted() if in_first_cgroup_namespace() else None,
        perf_event_paranoid=perf_event_paranoid(),
        perf_events_refused=_why_no_perf_events(),
    )


def _why_no_perf_events() -> Reason | None:
    if missing_capabilities(process_status("CapEff")) or not in_first_user_namespace():
        return None
    error = perf_event_error()
    return None if error is None else why_forbidden(error, takes_perf_events)


def machine_findings(facts: MachineFacts) -> tuple[CheckFinding, ...]:
    """Say what the facts mean to the user."""
    return (
        _capabilities(facts),
        *_other_capabilities(facts),
        _perf_events(facts),
        _user_namespace(facts),
        _pid_namespace_finding(facts),
        _time_namespace(facts),
        _cgroups(facts),
        _lockdown(facts),
        _seccomp(facts),
        _rights_given_up(facts),
    )


def _capabilities(facts: MachineFacts) -> CheckFinding:
    missing = missing_capabilities(facts.cap_eff)
    if not missing:
        return CheckFinding("capabilities", "yes", "CAP_BPF and CAP_PERFMON", needed=True)
    return CheckFinding(
        "capabilities",
        "no",
        f"{' and '.join(missing)} missing",
        needed=True,
        cost="nothing can be measured",
        remedy=AS_ROOT,
    )


def _other_capabilities(facts: MachineFacts) -> Iterator[CheckFinding]:
    for name, bit, cost in CAPABILITY_COSTS:
        if holds(facts.cap_eff, bit):
            yield CheckFinding(name, "yes")
        else:
            remedy = "run as root, in a container with this capability added"
            yield CheckFinding(name, "no", "missing", cost=cost, remedy=remedy)


def _perf_events(facts: MachineFacts) -> CheckFinding:
    setting = f"kernel.perf_event_paranoid={facts.perf_event_paranoid}"
    if facts.perf_event_paranoid > PERFMON_LEVEL and not holds(facts.cap_eff, CAP_SYS_ADMIN):
        refused = Reason(f"with {setting} they take CAP_SYS_ADMIN", LESS_PARANOID)
    elif facts.perf_events_refused is None:
        return CheckFinding("perf events", "yes", setting)
    else:
        refused = facts.perf_events_refused
    return CheckFinding(
        "perf events",
        "no",
        refused.why,
        cost=f"{NO_TRIGGERS}, no monitor of Open vSwitch runs by probes, and `watch` samples no"
        " slow thread",
        remedy=refused.remedy,
    )


def _user_namespace(facts: MachineFacts) -> CheckFinding:
    if facts.first_user_namespace:
        return CheckFinding("user namespace", "yes", "the machine's", needed=True)
    return CheckFinding(
        "user namespace",
        "no",
        "an inner one (a rootless container?), whose rights the kernel does not take for BPF",
        needed=True,
        cost="nothing can be measured",
        remedy=f"run as the machine's root, in a container with {CONTAINER_OPTIONS}",
    )


def _pid_namespace_finding(facts: MachineFacts) -> CheckFinding:
    match facts.pid_namespace:
        case "first":
            return CheckFinding("PID namespace", "yes", "the machine's", needed=True)
        case "inner":
            return CheckFinding(
                "PID namespace",
                "yes",
                "an inner one; PIDs are translated",
                needed=True,
                cost="only processes of this namespace can be measured",
                remedy="start the container with --pid=host",
            )
        case "foreign":
            return CheckFinding(
                "PID namespace",
                "no",
                "/proc is of another one than this process is in",
                needed=True,
                cost="no PID means what it says, so nothing can be measured",
                remedy="mount this namespace's /proc, or start the container with --pid=host",
            )


def _time_namespace(facts: MachineFacts) -> CheckFinding:
    if not facts.monotonic_offset_ns:
        return CheckFinding("time namespace", "yes", needed=True)
    return CheckFinding(
        "time namespace",
        "no",
        "its CLOCK_MONOTONIC is not the kernel's",
        needed=True,
        cost="windows would begin and end at wrong times, so nothing can be measured",
        remedy=OUTSIDE_TIME_NAMESPACE,
    )


def _cgroups(facts: MachineFacts) -> CheckFinding:
    if facts.cgroups:
        return CheckFinding("cgroups", "yes")
    if facts.cgroups is None:
        return CheckFinding(
            "cgroups",
            "no",
            "this cgroup namespace is not the machine's",
            cost="a process's quotas and container are not known",
            remedy="start the container with --cgroupns=host",
        )
    return CheckFinding(
        "cgroups",
        "no",
        "none of the machine's is mounted",
        cost="a process's quotas are not known",
        remedy="give the container the machine's /sys/fs/cgroup, read-only will do",
    )


def _lockdown(facts: MachineFacts) -> CheckFinding:
    name = "no lockdown"
    if facts.lockdown is None:
        return CheckFinding(name, "yes", "the kernel has none, or securityfs is not mounted")
    level = facts.lockdown.partition("[")[2].partition("]")[0]
    if level == "confidentiality":
        return CheckFinding(
            name,
            "no",
            "locked down for confidentiality",
            needed=True,
            cost="BPF programs may not read kernel memory, so nothing can be measured",
            remedy="boot with lockdown=integrity, or without Secure Boot",
        )
    return CheckFinding(
        name, "yes", "locked down for integrity only" if level == "integrity" else level
    )


def _seccomp(facts: MachineFacts) -> CheckFinding:
    name = "no seccomp filter"
    if facts.seccomp != SECCOMP_MODE_FILTER:
        return CheckFinding(name, "yes")
    return CheckFinding(
        name,
        "unknown",
        "a filter is set, as in a container",
        cost="if it blocks bpf(2), nothing can be measured; if it blocks perf_event_open(2),"
        f" {NO_TRIGGERS}",
        remedy=f"start the container with {CONTAINER_OPTIONS}",
    )


def _rights_given_up(facts: MachineFacts) -> CheckFinding:
    name = "rights given up"
    kept = " ".join((*EVENTS.capabilities, *PROCESS.capabilities))
    detail = f"once it measures, capture keeps {kept}"
    if facts.has_filters:
        return CheckFinding(
            name, "yes", f"{detail}, and {len(DENIED_CALLS)} system calls are denied"
        )
    return CheckFinding(
        name,
        "no",
        f"{detail}, but no system call is denied",
        cost="whoever takes the process over while it measures may make any system call",
        remedy="use a kernel with CONFIG_SECCOMP_FILTER=y",
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
