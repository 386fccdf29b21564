"""A private Open vSwitch that forwards all the packets it can get."""

import contextlib
import os
import time
from pathlib import Path
from typing import Self

from kernel_delay.openvswitch.pmds import parse_cycles
from lab.binaries import Binaries
from lab.child import Child
from lab.instance import Instance

_BRIDGE = "br0"
_ANSWER_S = 20.0


class Flooded:
    """Open vSwitch with the userspace datapath, between two devices of one network namespace.

    A context manager. ovs-vswitchd's main thread, which polls both, has the
    last CPU, the flood the first. It rests until `go()`. With `pmd` a PMD
    thread polls them by AF_XDP, and has that CPU alone.
    """

    def __init__(self, binaries: Binaries, flood: Path, *, pmd: bool = False) -> None:
        """Take note of the programs."""
        self._ovs = Instance(binaries)
        self._pmd = pmd
        self._flood = flood
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start all; raises a KernelDelayError where that fails."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._ovs)
            self._source = Child([self._flood, "out"], own_network=True)
            stack.callback(self._source.stop)
            self._source.expect("ready", _ANSWER_S)
            self._ovs.add_bridge(_BRIDGE)
            cpus = sorted(os.sched_getaffinity(0))
            if self._pmd:
                mask = f"other_config:pmd-cpu-mask={1 << cpus[-1]:#x}"
                self._ovs.vsctl("set", "Open_vSwitch", ".", mask)
            for number, device in enumerate(("out", "in"), 1):
                self._connect(number, device)
            self._ovs.ofctl("del-flows", _BRIDGE)
            self._ovs.ofctl("add-flow", _BRIDGE, "in_port=1,actions=output:2")
            os.sched_setaffinity(self._ovs.pid, {cpus[0 if self._pmd else -1]})
            os.sched_setaffinity(self._source.pid, {cpus[0]})
            self.toggle()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        self._stack.close()

    @property
    def pid(self) -> int:
        """The process id of ovs-vswitchd."""
        return self._ovs.pid

    def toggle(self) -> None:
        """Start the flood, or end it."""
        self._source.tell("")
        self._source.expect("done", _ANSWER_S)

    def per_second(self, seconds: float) -> float:
        """Return how many packets come out in a second of its CPU time.

        Measured for `seconds`. It always has a packet to forward, so on
        a CPU of its own that is a second; what else the machine does, and the
        scheduler gives to others, does not count. Of a PMD thread only the share
        of iterations that had packets counts: it polls also where there is none.
        """
        packets, begin_ns = self._packets(), self._cpu_ns()
        if self._pmd:
            self._ovs.appctl("dpif-netdev/pmd-stats-clear")
        time.sleep(seconds)
        busy_ns = (self._cpu_ns() - begin_ns) * self._busy_share()
        return (self._packets() - packets) / busy_ns * 1e9 if busy_ns else 0.0

    def _busy_share(self) -> float:
        if not self._pmd:
            return 1.0
        (cycles,) = parse_cycles(self._ovs.appctl("dpif-netdev/pmd-stats-show")).values()
        return cycles.busy / (cycles.busy + cycles.idle)

    def _connect(self, number: int, device: str) -> None:
        port = f"p{number}"
        pair = f"link add {port} type veth peer name {device} netns {self._source.pid}\n"
        self._ovs.in_network(["ip", "-batch", "-"], f"{pair}link set {port} up\n")
        self._source.in_network(["ip", "link", "set", device, "up"])
        options = [f"ofport_request={number}"]
        if self._pmd:
            options += ["type=afxdp", "options:n_rxq=1"]
        self._ovs.vsctl("add-port", _BRIDGE, port, "--", "set", "Interface", port, *options)

    def _packets(self) -> int:
        # proc(5): bytes and packets received come first.
        for line in Path(f"/proc/{self._source.pid}/net/dev").read_text().splitlines():
            name, _, numbers = line.strip().partition(":")
            if name == "in":
                return int(numbers.split()[1])
        return 0

    def _cpu_ns(self) -> int:
        # Documentation/scheduler/sched-stats.rst: the time on a CPU comes first.
        stats = [task / "schedstat" for task in self._polling()]
        return sum(int(file.read_text().split()[0]) for file in stats)

    def _polling(self) -> list[Path]:
        """Return the threads whose CPU time counts."""
        tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
        if not self._pmd:
            return tasks
        # lib/dpif-netdev.c:pmd_thread_main()
        return [task for task in tasks if (task / "comm").read_text().startswith("pmd-c")]
