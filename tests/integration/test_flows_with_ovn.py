"""`kernel-delay flows --rules` and ovn-detrace: which logical flows a flow of OVN is made of."""

import re
import time
from pathlib import Path

import pytest

from lab.binaries import Binaries
from lab.instance import Instance
from tests import commands
from tests.ovn import SWITCH, Ovn, address
from tests.workload import wait_until

PACKET = (
    f"in_port(1),eth(src={address(1)},dst={address(2)}),eth_type(0x0800),"
    "ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)"
)
BETWEEN_S = 0.1


@pytest.mark.long
def test_ovn_detrace_has_the_logical_flows_of_a_flow(
    root_user: None, usdt_binaries: Binaries, tmp_path: Path
) -> None:
    ovn, output, errors = Ovn(tmp_path), tmp_path / "flows", tmp_path / "errors"
    with (
        Instance(usdt_binaries, options=("--enable-dummy",)) as ovs,
        ovn.running(usdt_binaries, ovs),
    ):
        with output.open("w") as stdout, errors.open("w") as stderr:
            command = ("flows", "-p", ovs.pid, "--rules", "--time", "5")
            flows = commands.start(*command, stdout=stdout.fileno(), stderr=stderr.fileno())

        def has_ended() -> bool:
            # From the second packet on Open vSwitch knows the rules.
            ovs.appctl("netdev-dummy/receive", "p1", PACKET)
            time.sleep(BETWEEN_S)
            return flows.poll() is not None

        try:
            wait_until(lambda: "Ctrl-C ends it" in errors.read_text(), "the command")
            wait_until(has_ended, "the end")
        finally:
            flows.kill()
            flows.wait()
        report = output.read_text()
        explained = ovn.detrace(report)
    cookies = re.findall(r"^ *\d+\. .*, cookie 0x", report, re.MULTILINE)
    assert len(re.findall(r"\* Logical (?:flow|datapath):", explained)) >= len(cookies) > 10
    assert f'"{SWITCH}"' in explained
    assert 'actions=(outport = "lp2"; output;)' in explained
