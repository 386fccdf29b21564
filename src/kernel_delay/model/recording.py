"""What a recording says of itself: where, of what and how it was made, and how it ended.

What was measured stands between the two: Samples, or events of a monitor.
docs/reference/recording.schema.json is generated from this.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

RecordingFormat = Literal["kernel-delay-recording/1.1", "kernel-delay-recording/1"]
"""The form of the file, the current one first: all of these are read.

It gains fields without a new number. A minor number is for names that change, a major one for
what changes its meaning or goes.
"""

MeasuringCommand = str
"""A command that measures, and so can write a recording: capture, watch, or a monitor's."""

RecordingEnd = Literal["done", "interrupt", "exit", "timeout", "error"]
"""Why nothing follows: all was measured that was asked for, a signal, the process's exit, a
trigger that did not come, or a failure of the tool, as when its report had no room."""


class Container(Struct, frozen=True):
    """The container of a process, as far as the path of its cgroup shows.

    Attributes:
        runtime: "docker", "libpod" (podman), "crio", "containerd" or "lxc". None: the path does
            not show it.
        id: The ID of the container. None: the path does not show it.
        pod: The UID of the Kubernetes pod. None: the path does not show it.
        name: The name of the container, from files of the runtime or the kubelet. None: no such
            file.
        pod_name: The name of the pod, from the same files. None: no such file.
        pod_namespace: The namespace of the pod, from the same files. None: no such file.
    """

    runtime: str | None
    id: str | None
    pod: str | None
    name: str | None = None
    pod_name: str | None = None
    pod_namespace: str | None = None


class RecordedTarget(Struct, frozen=True):
    """The process that was measured.

    Attributes:
        pid: The process ID.
        comm: The process name.
        exe: The path of the program. None: the path cannot be read.
        command_line: The arguments, cut after 4096 bytes.
        cgroup: The path of the cgroup, as in /proc/PID/cgroup. None: the process is in the root
            cgroup only.
        container: The container of the process. None: it is in no container.
    """

    pid: int
    comm: str
    exe: str | None
    command_line: tuple[str, ...] = ()
    cgroup: str | None = None
    container: Container | None = None


class ClockRelation(Struct, frozen=True):
    """One moment by both clocks.

    Attributes:
        monotonic_ns: CLOCK_MONOTONIC, in ns.
        realtime_ns: CLOCK_REALTIME, in ns since 1970.
    """

    monotonic_ns: int
    realtime_ns: int


class RecordingHeader(Struct, frozen=True, tag="header", tag_field="record"):
    """The first record: what was measured where, and by what.

    Attributes:
        format: The format of the file.
        tool: The version of kernel-delay.
        command: The command that measured.
        arguments: The arguments of the command line, without the program's own name.
        host: The host name.
        kernel: The kernel release, as in uname(2).
        machine: The architecture, as in uname(2).
        boot_id: The boot ID of the machine. None: it cannot be read.
        cpus: The number of online CPUs.
        clock: The time at which the recording began.
        target: The process that was measured.
        node: The name of the Kubernetes node (NODE_NAME). None: not set.
        others: Further processes that were measured. Forked processes are in the Samples only.
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
    """The last record.

    A recording without this record was cut.

    Attributes:
        ended: Why the recording ended.
        samples: The number of Samples before this record.
        events: The number of Open vSwitch events before this record.
        lost: Events that could not be recorded, by kind. The losses of a Sample are in the Sample.
    """

    ended: RecordingEnd
    samples: int = 0
    events: int = 0
    lost: Mapping[str, int] = {}
