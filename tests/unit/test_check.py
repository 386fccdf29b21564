"""What the facts of a machine mean, and how a check reads."""

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.missed import COSTS
from kernel_delay.commands import check_kernel, check_report
from kernel_delay.commands.check_findings import CheckFinding, Inspection, can_capture
from kernel_delay.commands.check_machine import MachineFacts, machine_findings
from kernel_delay.errors import PermissionDeniedError, UnavailableError
from kernel_delay.host.preflight import Reason
from kernel_delay.host.target import ProcessTarget
from kernel_delay.reporters.layout import Layout
from tests.unit.options_on_kernels import NEWER

FREE = MachineFacts(
    cap_eff="000001ffffffffff",
    first_user_namespace=True,
    seccomp="0",
    has_filters=True,
    lockdown="[none] integrity confidentiality\n",
    pid_namespace="first",
    monotonic_offset_ns=0,
    cgroups=True,
    perf_event_paranoid=2,
    perf_events_refused=None,
)
ALL = int(FREE.cap_eff, 16)


def missing(facts: MachineFacts) -> dict[str, CheckFinding]:
    return {finding.name: finding for finding in machine_findings(facts) if finding.state != "yes"}


def test_nothing_is_missing_on_a_free_machine() -> None:
    assert missing(FREE) == {}
    assert can_capture(machine_findings(FREE))


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (replace(FREE, cap_eff=f"{ALL & ~(1 << 38 | 1 << 21):x}"), "capabilities"),
        (replace(FREE, first_user_namespace=False), "user namespace"),
        (replace(FREE, pid_namespace="foreign"), "PID namespace"),
        (replace(FREE, monotonic_offset_ns=-1), "time namespace"),
        (replace(FREE, lockdown="none integrity [confidentiality]\n"), "no lockdown"),
    ],
)
def test_each_obstacle_to_a_capture_has_cost_and_remedy(facts: MachineFacts, name: str) -> None:
    found = missing(facts)
    assert [key for key in found if not key.startswith("CAP_")] == [name]
    assert found[name].cost
    assert found[name].remedy
    assert not can_capture(machine_findings(facts))


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (replace(FREE, cap_eff=f"{ALL & ~(1 << 21):x}"), "CAP_SYS_ADMIN"),
        (replace(FREE, cap_eff=f"{ALL & ~(1 << 19):x}"), "CAP_SYS_PTRACE"),
        (replace(FREE, cap_eff=f"{ALL & ~(1 << 2):x}"), "CAP_DAC_READ_SEARCH"),
        (replace(FREE, cap_eff=f"{ALL & ~(1 << 34):x}"), "CAP_SYSLOG"),
        (replace(FREE, cgroups=False), "cgroups"),
        (replace(FREE, cgroups=None), "cgroups"),
    ],
)
def test_each_capability_and_mount_that_is_missing_is_named(facts: MachineFacts, name: str) -> None:
    found = missing(facts)
    assert list(found) == [name]
    assert found[name].cost
    assert found[name].remedy
    assert can_capture(machine_findings(facts))


def test_paranoid_levels_of_distributions_take_a_capability() -> None:
    """Debian's and Ubuntu's kernels have them."""
    paranoid = replace(FREE, perf_event_paranoid=3)
    assert missing(paranoid) == {}
    assert list(missing(replace(paranoid, cap_eff=f"{ALL & ~(1 << 21):x}"))) == [
        "CAP_SYS_ADMIN",
        "perf events",
    ]


def test_refused_perf_events_leave_no_place_to_triggers() -> None:
    refused = Reason("a filter is set", "lift it")
    machine = machine_findings(replace(FREE, perf_events_refused=refused))
    (found,) = (finding for finding in machine if finding.state != "yes")
    assert (found.name, found.detail, found.remedy) == ("perf events", *refused)
    assert can_capture(machine)
    assert "yes" not in {place.state for place in check_kernel._places(has_perf_events=False)}


@pytest.mark.parametrize(
    ("lacking", "tried"),
    [
        (("capabilities", "first, as root"), False),
        (("user namespace", "first, outside"), False),
        (("time namespace", "first, outside"), True),
        (("no lockdown", "first, boot"), True),
    ],
)
def test_bpf_is_tried_unless_rights_are_missing(
    monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, str], *, tried: bool
) -> None:
    name, remedy = lacking
    reason = Reason("a filter is set", "lift it")
    monkeypatch.setattr(check_kernel, "has_map_type", lambda _: False)
    monkeypatch.setattr(check_kernel, "why_refused", lambda: reason)
    missing = CheckFinding(name, "no", needed=True, remedy=remedy)
    (bpf,) = (each for each in check_kernel.kernel_findings((missing,)) if each.name == "BPF")
    expected = reason if tried else ("the user's rights do not suffice", remedy)
    assert (bpf.detail, bpf.remedy) == expected


def test_refused_load_is_not_called_a_lack_of_the_kernel(
    measurable: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = PermissionDeniedError("the kernel refuses eBPF: a filter is set", "lift it")

    def refuse(_: object) -> None:
        raise refused

    monkeypatch.setattr(check_kernel, "load_object", refuse)
    found = check_kernel._tracing_programs()
    assert (found.state, found.detail, found.remedy) == ("no", refused.what, refused.remedy)


@pytest.mark.parametrize(
    "facts",
    [
        replace(FREE, pid_namespace="inner"),
        replace(FREE, lockdown="none [integrity] confidentiality\n"),
        replace(FREE, lockdown=None),
        replace(FREE, seccomp="2"),
        replace(FREE, monotonic_offset_ns=None),
    ],
)
def test_what_only_limits_lets_a_capture_run(facts: MachineFacts) -> None:
    assert can_capture(machine_findings(facts))


def test_refused_programs_are_reported_as_a_capture_reports_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = UnavailableError("the kernel's verifier refuses the program p: no", "report it")

    def refuse(*_: object, **__: object) -> None:
        raise refused

    monkeypatch.setattr(check_kernel, "Programs", refuse)
    found, *parts = check_kernel._programs((CheckFinding("BTF", "yes", needed=True),))
    assert f"{found.detail}: {found.remedy}" == str(refused)
    assert {part.state for part in parts} == {"unknown"}
    lacking, *parts = check_kernel._programs((CheckFinding("BTF", "no", needed=True),))
    assert (lacking.state, lacking.detail) == ("unknown", "it takes BTF to try them")
    assert {part.state for part in parts} == {"unknown"}


def test_missing_part_is_listed_with_cost_and_remedy() -> None:
    refused = UnavailableError("the kernel's verifier refuses the program p: no", "report it")
    denied = PermissionDeniedError("the kernel refuses eBPF: a filter is set", "lift it")
    parts = check_kernel._optional_parts({"futex_owners": refused, "page_faults": denied})
    faults, owners, calls, *_ = parts
    assert (calls.name, calls.state) == ("earlier calls", "yes")
    assert (owners.name, owners.state, owners.detail) == ("futex owners", "no", refused.what)
    assert owners.cost == COSTS["futex_owners"]
    assert owners.remedy == "use a kernel of 5.18 or later"
    assert (faults.state, faults.remedy) == ("no", "lift it")
    assert not owners.needed
    assert not faults.needed


def test_what_other_captures_ask_for_is_listed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    older = replace(NEWER, knows_earlier_calls=False)
    for kernel, missing in (
        (NEWER, []),
        (older, ["stacks of wakers", "samples", "user stacks"]),
        (replace(NEWER, loops=False), ["long waits"]),
    ):
        monkeypatch.setattr(check_kernel, "read_kernel_features", lambda found=kernel: found)
        parts = list(check_kernel._optional_parts({}))
        absent = [part for part in parts if part.state == "no"]
        assert [part.name for part in absent] == missing
        assert all(part.cost and part.remedy and not part.needed for part in absent)


def test_findings_are_lines_and_the_verdict_comes_last() -> None:
    facts = replace(FREE, cap_eff="0000000000000000")
    machine = machine_findings(facts)
    found = Inspection(
        schema="kernel-delay-check/1",
        kernel="6.1.0\x1b[31m x86_64",
        machine=machine,
        features=(CheckFinding("BTF", "yes", "/sys/kernel/btf/vmlinux", needed=True),),
        target=ProcessTarget(7, "evil\nname", None),
        no_target=None,
        process=(CheckFinding("USDT probes", "yes", "13 in the binary"),),
        can_capture=can_capture(machine),
    )
    assert all(
        len(line) <= 80 for line in check_report.render(found, Layout(width=80)).splitlines()
    )
    lines = check_report.render(found).splitlines()
    assert "\x1b" not in "".join(lines)
    assert lines[1].split() == ["capabilities", "no", "CAP_PERFMON", "and", "CAP_BPF", "missing"]
    assert lines[2].split()[:4] == ["what", "it", "costs:", "nothing"]
    assert lines[3].split()[:4] == ["how", "to", "get", "it:"]
    assert lines[-4] == "  BTF                  yes      /sys/kernel/btf/vmlinux"
    assert lines[-3] == r"Process 7 evil\x0aname"
    assert lines[-2] == "  USDT probes          yes      13 in the binary"
    assert lines[-1] == "No capture can run: see above."
