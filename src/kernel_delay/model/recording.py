"""What a recording says of itself: where, of what and how it was made, and how it ended.

What was measured stands between the two: Samples, or events of Open vSwitch.
docs/recording.schema.json is generated from this.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

RecordingFormat = Literal["kernel-delay-recording/1"]
"""The form of the file. It gains fields without a new number; that is for what changes or goes."""

MeasuringCommand = Literal[
    "capture",
    "watch",
    "bridge-loop",
    "upcall-monitor",
    "upcall-cost",
    "revalidator",
    "flows",
    "datapath-ops",
]
"""The commands that measure, and so can write a recording."""

RecordingEnd = Literal["done", "interrupt", "exit", "timeout", "error"]
"""Why nothing follows: all was measured that was asked for, a signal, the process's exit, a
trigger that did not come, or a failure of the tool, as when its report had no room."""


class Container(Struct, frozen=True):
    """The container that a process is in, as far as its cgroup's path tells.

    `runtime` is that of the path's words: "docker", "libpod" (podman), "crio", "containerd" or
    "lxc". `id` is the container's, `pod` the UID of its Kubernetes pod. Each is None where the
    path does not say. `name`, `pod_name` and `pod_namespace` are what the files of the runtime or
    the kubelet call it, its pod, and that one's namespace; None where these are not there.
    """

    runtime: str | None
    id: str | None
    pod: str | None
    name: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None


class RecordedTarget(Struct, frozen=True):
    """The process that was measured.

    `exe` is its program's path, None where that can't be read. `command_line` are its arguments,
    cut short after 4096 bytes. `cgroup` is the path of its cgroup as /proc/PID/cgroup has it,
    None where it is in none but the root.
    """

    pid: int
    comm: str
    exe: str | None
    command_line: tuple[str, ...] = ()
    cgroup: str | None = None
    container: Container | None = None


class ClockRelation(Struct, frozen=True):
    """One time by both clocks: CLOCK_MONOTONIC and CLOCK_REALTIME, in ns."""

    monotonic_ns: int
    realtime_ns: int


class RecordingHeader(Struct, frozen=True, tag="header", tag_field="record"):
    """The first record: what was measured where, and by what.

    `tool` is the version of kernel-delay, `arguments` are those of its command line without its
    own name. `kernel` is the release, `machine` the architecture, both as uname(2) has them;
    `boot_id` tells one boot of a machine from all others, None where it can't be read. `clock`
    is the time at which the recording was begun, `cpus` how many are online then. `node` is what
    Kubernetes calls the machine, None where the tool was not told (NODE_NAME). `others` were
    measured with the `target`; what any of them forked is in the Samples alone.
    """

    format: RecordingFormat
    tool: str
    command: MeasuringCommand
    arguments: tuple[str, ...]
    host: str
    kernel: str
    machine: str
    boot_id: str | None
    cpus: int
    clock: ClockRelation
    target: RecordedTarget
    node: str | None = None
    others: tuple[RecordedTarget, ...] = ()


class RecordingTrailer(Struct, frozen=True, tag="trailer", tag_field="record"):
    """The last record: a recording without one was cut.

    `samples` and `events` (of Open vSwitch) count what is before it. `lost` are events that
    could not be recorded, by their kind; what a Sample lost is in the Sample itself.
    """

    ended: RecordingEnd
    samples: int = 0
    events: int = 0
    lost: Mapping[str, int] = {}
