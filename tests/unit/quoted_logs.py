"""Long rounds that were quoted in public issues: the figures of their lines, and where from."""

from typing import NamedTuple

from kernel_delay.commands.log.causes import Cause, Usage


class Quoted(NamedTuple):
    """A round, as a line of a public issue has it; `cause` is what is to be said of it."""

    url: str
    program: str
    thread: str
    usage: Usage
    cause: Cause


def _usage(
    length_ms: int,
    user_ms: int,
    system_ms: int,
    switches: tuple[int, int] | None = None,
    faults: tuple[int, int] = (0, 0),
    disk: tuple[int, int] = (0, 0),
) -> Usage:
    if switches is None:  # the issue quotes the first line alone
        return Usage(length_ms, user_ms, system_ms)
    return Usage(length_ms, user_ms, system_ms, *faults, *disk, *switches)


_HOTSOS_165 = "https://github.com/canonical/hotsos/issues/165"
_HOTSOS_285 = "https://github.com/canonical/hotsos/issues/285"
_KUBE_OVN_3051 = "https://github.com/kubeovn/kube-ovn/issues/3051"
_KUBE_OVN_3196 = "https://github.com/kubeovn/kube-ovn/issues/3196"
_KUBE_OVN_3519 = "https://github.com/kubeovn/kube-ovn/issues/3519"
_KUBE_OVN_3530 = "https://github.com/kubeovn/kube-ovn/pull/3530"
_OF_CONFIG_19 = "https://github.com/openvswitch/of-config/issues/19"
_OVN_51 = "https://github.com/ovn-org/ovn/issues/51"
_OVN_261 = "https://github.com/ovn-org/ovn/issues/261"
_OVS_185 = "https://github.com/openvswitch/ovs-issues/issues/185"
_OVS_345 = "https://github.com/openvswitch/ovs-issues/issues/345"

_SWITCH, _DB, _NORTHD, _OVN = "ovs-vswitchd", "ovsdb-server", "ovn-northd", "ovn-controller"

QUOTED = (
    Quoted(_HOTSOS_165, _SWITCH, "handler91", _usage(3364, 0, 1), "off_cpu"),
    Quoted(_HOTSOS_285, _DB, "", _usage(27886, 27242, 616), "computing"),
    Quoted(_KUBE_OVN_3530, _SWITCH, "", _usage(16306, 6568, 258, (111, 2576), (284, 0)), "waiting"),
    Quoted(_KUBE_OVN_3051, "", "", _usage(1471, 140, 9, (16, 1), (16, 0), (0, 8)), "blocked"),
    Quoted(_KUBE_OVN_3051, "", "", _usage(1219, 161, 10, (12, 3), (16, 0), (0, 8)), "blocked"),
    Quoted(
        _KUBE_OVN_3051, "", "", _usage(1171, 211, 50, (40, 15), (1223, 0), (0, 4760)), "off_cpu"
    ),
    Quoted(
        _KUBE_OVN_3051, "", "", _usage(1057, 321, 155, (18, 51), (14284, 0), (0, 4872)), "off_cpu"
    ),
    Quoted(
        _KUBE_OVN_3519,
        _SWITCH,
        "revalidator15",
        _usage(2292, 144, 20, (10, 45), (2635, 0)),
        "off_cpu",
    ),
    Quoted(_KUBE_OVN_3519, _SWITCH, "handler10", _usage(1002, 59, 2, (1, 24), (15, 0)), "off_cpu"),
    Quoted(
        _KUBE_OVN_3519,
        _SWITCH,
        "revalidator15",
        _usage(13076, 1248, 123, (117, 269), (24247, 0)),
        "off_cpu",
    ),
    Quoted(_OF_CONFIG_19, "", "", _usage(89137, 3, 8, (179, 29), (4, 0), (0, 8)), "blocked"),
    Quoted(_OVS_185, _SWITCH, "", _usage(1415, 647, 749, (0, 380)), "kernel"),
    Quoted(_OVS_185, _SWITCH, "", _usage(1455, 735, 697, (0, 410)), "computing"),
    Quoted(_OVS_345, _SWITCH, "urcu2", _usage(2306, 2285, 0, (3225, 39), (1, 0)), "computing"),
    Quoted(
        _OVN_51,
        _NORTHD,
        "",
        _usage(7210, 6019, 674, (1376, 602), (315533, 0), (0, 304840)),
        "computing",
    ),
    Quoted(_OVN_261, _OVN, "", _usage(1115, 1115, 0, (0, 6)), "computing"),
    Quoted(_KUBE_OVN_3196, _OVN, "", _usage(12031, 11587, 440, (0, 76), (189971, 0)), "computing"),
)
