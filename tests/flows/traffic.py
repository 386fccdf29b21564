"""python -m tests.flows.traffic FOLDER: flows are made by real traffic; then they go, or change.

Meanwhile three monitors record. FOLDER gets their recordings, and what Open vSwitch, the kernel and
ovs-dpctl said before and after each cause; tests.flows.judge holds the two against each other.
Runs in a guest, on the kernel's datapath.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kernel_delay.monitors.flows.events import FlowChange
from lab.binaries import Binaries
from lab.instance import Instance, OvsCommandError
from tests.integration import kernel_datapath
from tests.integration.kernel_datapath import BRIDGE, EVERY_FLOW_ANEW
from tests.watching.churn import Monitor

FLOWS = 10_000
# What reads the events has little of a CPU in a guest: hence a large buffer for the most of them.
MONITORS = {
    "revalidator": (),
    "flows": (),
    "datapath-ops": ("--buffer-page-count", "32768"),
}
# What Open vSwitch counts of its deletions, of a flow and of all (lib/dpif.c, 3.5). What its
# handlers count is added up when the next packet comes.
COUNTERS = ("dpif_flow_del", "dpif_flow_flush")
NOTES = "notes.json"

# Its threads add up what they counted every second or so.
_COUNTED_S = 5.0
_LIMIT_S = 300.0
_LOOKS_S = 0.5

# The upper rule's flows match addresses and ports, the lower one's look at the TTL beside them:
# what the first allowed is too wide for the second.
_UPPER = "priority=200"
_LOWER = "priority=100,udp,nw_ttl=64,actions=LOCAL"
# Rounds of many flows are slow in a guest: without a pause nothing else would have a CPU there, and
# the limit falls with each. Three times this one is still a number of 32 bits, as it has to be
# where Open vSwitch takes three quarters.
_LIMIT = "1000000000"
_CALM = (
    "other_config:max-revalidator=1000",
    # Else slow rounds delete flows of few packets without a look at the tables: `too_expensive`.
    "other_config:min-revalidate-pps=0",
    f"other_config:flow-limit={_LIMIT}",
)
_STAY = "other_config:max-idle=3600000"
_DATAPATH = "system@ovs-system"
_FLOW = "recirc_id(0),in_port(1),eth(),eth_type(0x1234)"


class State(Struct, frozen=True):
    """What was said of the flows, between two times of CLOCK_MONOTONIC."""

    begun_ns: int
    ended_ns: int
    upcall_show: str
    dpctl_show: str
    with_ufids: list[str]
    short: list[str]


class Period(Struct, frozen=True):
    """From no flows to none: all are there at `filled_ns`, the cause comes at `caused_ns`."""

    name: str
    change: FlowChange
    reason: str | None
    begun_ns: int
    filled_ns: int
    before: State
    caused_ns: int
    after: State
    purged_ns: int
    ended_ns: int


class Notes(Struct, frozen=True):
    """All of it; `counted` is by how much Open vSwitch's counters grew, `upcalls` how many the
    kernel counted, and `answers_ns` when operations began that are to be refused.
    """

    release: str
    open_vswitch: str
    periods: list[Period]
    answers_ns: int
    counted: dict[str, int]
    upcalls: int


class Cause(NamedTuple):
    """What `happens` to flows, and what becomes of each."""

    name: str
    happens: Callable[[Instance], object]
    change: FlowChange
    reason: str | None


def _idle(ovs: Instance) -> None:
    ovs.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")


def _expires(timeout: str) -> Callable[[Instance], object]:
    """The upper rule has a second left, and below it there is another."""

    def happen(ovs: Instance) -> None:
        ovs.ofctl("add-flow", BRIDGE, _LOWER)
        ovs.ofctl("add-flow", BRIDGE, f"{_UPPER},{timeout}=1,{EVERY_FLOW_ANEW}")

    return happen


def _narrower(ovs: Instance) -> None:
    ovs.ofctl("add-flow", BRIDGE, "priority=300,udp,nw_ttl=64,actions=LOCAL")


def _small_limit(ovs: Instance) -> None:
    """One that is far too small for all of a round; at its end Open vSwitch has another."""
    ovs.appctl("revalidator/pause")
    ovs.appctl("upcall/set-flow-limit", "0")
    ovs.appctl("revalidator/resume")


CAUSES = (
    Cause("max-idle", _idle, "delete", "flow_idle"),
    Cause("idle_timeout", _expires("idle_timeout"), "delete", "flow_wildcarded"),
    Cause("hard_timeout", _expires("hard_timeout"), "delete", "flow_wildcarded"),
    Cause("flow limit", _small_limit, "delete", "flow_limit"),
    Cause("del-flows", lambda ovs: ovs.ofctl("del-flows", BRIDGE), "modify", None),
    Cause("add-flow", _narrower, "delete", "flow_wildcarded"),
    Cause(
        "dpctl/del-flows", lambda ovs: ovs.appctl("dpctl/del-flows"), "delete", "flow_missing_dp"
    ),
)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.flows.traffic")
    parser.add_argument("--flows", type=int, default=FLOWS)
    names = [cause.name for cause in CAUSES]
    parser.add_argument("--cause", action="append", choices=names, help="only this one")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    binaries = Binaries.under(Path(os.environ["KERNEL_DELAY_USDT_OVS"]))
    debian = Binaries.under(Path(os.environ["KERNEL_DELAY_OVS"]))
    dpctl = debian.ovs_appctl.with_name("ovs-dpctl")
    with tempfile.TemporaryDirectory() as name, Instance(binaries, datapath="system") as ovs:
        with kernel_datapath.bridge(ovs):
            traffic = _Traffic(ovs, dpctl, options.flows)
            causes = [each for each in CAUSES if each.name in (options.cause or names)]
            notes = _recorded(traffic, causes, Path(name))
        for file in Path(name).iterdir():
            shutil.copyfile(file, options.folder / file.name)
    (options.folder / NOTES).write_bytes(msgspec.json.encode(notes))
    return 0


def _recorded(traffic: "_Traffic", causes: Sequence[Cause], folder: Path) -> Notes:
    """Have the monitors record all of it."""
    ovs = traffic.ovs
    time.sleep(_COUNTED_S)
    before, missed = _counters(ovs), _upcalls(ovs)
    monitors = [
        Monitor(folder, ovs.pid, command, "-q", "-o", str(recording(folder, command)), *options)
        for command, options in MONITORS.items()
    ]
    periods = [traffic.period(cause) for cause in causes]
    time.sleep(_COUNTED_S)
    after, upcalls = _counters(ovs), _upcalls(ovs) - missed
    answers_ns = time.monotonic_ns()
    traffic.refusals()
    for monitor in monitors:
        monitor.end()
    return Notes(
        release=os.uname().release,
        open_vswitch=ovs.appctl("version").splitlines()[0],
        periods=periods,
        answers_ns=answers_ns,
        counted={name: after[name] - before[name] for name in COUNTERS},
        upcalls=upcalls,
    )


def recording(folder: Path, command: str) -> Path:
    """Where the command's recording is."""
    return folder / f"{command}.kdr"


class _Traffic:
    """Makes flows, and has them go."""

    def __init__(self, ovs: Instance, dpctl: Path, flows: int) -> None:
        self.ovs, self._dpctl, self._flows = ovs, dpctl, flows

    def period(self, cause: Cause) -> Period:
        """Flows come and stay; then comes the cause; what is left is purged."""
        self._say(f"{cause.name} …")
        begun_ns = time.monotonic_ns()
        self._fill()
        filled_ns = time.monotonic_ns()
        self._say("filled")
        before = self._state()
        caused_ns = time.monotonic_ns()
        cause.happens(self.ovs)
        self._say("caused")
        if cause.change == "delete":
            self._until_none()
        else:
            self._rounds(3)
        after = self._state()
        purged_ns = time.monotonic_ns()
        self.ovs.appctl("revalidator/purge")
        self._until_none()
        return Period(
            name=cause.name,
            change=cause.change,
            reason=cause.reason,
            begun_ns=begun_ns,
            filled_ns=filled_ns,
            before=before,
            caused_ns=caused_ns,
            after=after,
            purged_ns=purged_ns,
            ended_ns=time.monotonic_ns(),
        )

    def refusals(self) -> None:
        """With all flows there, ask for what the kernel refuses; at last its datapath is gone."""
        self._say("refusals …")
        self._fill()
        self.ovs.appctl("revalidator/pause")  # which would delete what it does not know
        self.ovs.appctl("dpctl/add-flow", _DATAPATH, _FLOW, "2")
        self._refused("dpctl/add-flow", _DATAPATH, _FLOW, "2")
        self.ovs.appctl("dpctl/del-flow", _DATAPATH, _FLOW)
        self._refused("dpctl/del-flow", _DATAPATH, _FLOW)
        self._refused("dpctl/mod-flow", _DATAPATH, _FLOW, "2")
        self._run_dpctl("del-dp", "ovs-system")
        self.ovs.appctl("revalidator/resume")
        self._until_none()

    def _fill(self) -> None:
        self.ovs.vsctl("set", "Open_vSwitch", ".", _STAY, *_CALM)
        self.ovs.ofctl("del-flows", BRIDGE)
        self.ovs.ofctl("add-flow", BRIDGE, f"{_UPPER},{EVERY_FLOW_ANEW}")
        kernel_datapath.fill(self.ovs, self._flows, _LIMIT)

    def _state(self) -> State:
        """What is said, while a round begins and ends."""
        self.ovs.appctl("upcall/set-flow-limit", _LIMIT)
        # A round that lasts too long takes from what the limit is at its end: no round says what
        # was set in the midst of it.
        self._rounds(1)
        begun_ns = time.monotonic_ns()
        shown = self.ovs.appctl("upcall/show"), self.ovs.appctl("dpctl/show", _DATAPATH)
        with_ufids = self._run_dpctl("dump-flows", "-m")
        # Of actions Debian 12's ovs-dpctl knows fewer than this Open vSwitch has.
        short = self.ovs.appctl("dpctl/dump-flows", _DATAPATH).splitlines()
        self._rounds(2)
        return State(begun_ns, time.monotonic_ns(), *shown, with_ufids, short)

    def _rounds(self, count: int) -> None:
        """Wait for the ends of so many rounds, of which the first may have begun before."""
        for _ in range(count):
            self.ovs.appctl("revalidator/wait")

    def _until_none(self) -> None:
        deadline = time.monotonic() + _LIMIT_S
        while re.search(r"\(keys [1-9]", self.ovs.appctl("upcall/show")):
            if time.monotonic() > deadline:
                raise RuntimeError(f"flows stay: {self.ovs.appctl('upcall/show')}")
            time.sleep(_LOOKS_S)

    def _say(self, text: str) -> None:
        shown = self.ovs.appctl("upcall/show").splitlines()
        print(f"{time.monotonic():.0f} {text} {' '.join(shown[1:4])}", file=sys.stderr, flush=True)

    def _refused(self, *command: str) -> None:
        try:
            self.ovs.appctl(*command)
        except OvsCommandError:
            return
        raise RuntimeError(f"not refused: {' '.join(command)}")

    def _run_dpctl(self, *arguments: str) -> list[str]:
        network = f"--net=/proc/{self.ovs.pid}/ns/net"
        command = ["nsenter", network, "--", str(self._dpctl), *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.splitlines()


def _counters(ovs: Instance) -> dict[str, int]:
    return {name: int(ovs.appctl("coverage/read-counter", name)) for name in COUNTERS}


def _upcalls(ovs: Instance) -> int:
    """How many the kernel has sent so far."""
    shown = ovs.appctl("dpctl/show", _DATAPATH)
    ((missed, lost),) = re.findall(r"missed:(\d+) lost:(\d+)", shown)
    return int(missed) - int(lost)


if __name__ == "__main__":
    sys.exit(main())
