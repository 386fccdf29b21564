"""Netlink operations of the kernel's datapath, as datapath_ops.bpf.c sees them."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from kernel_delay.errors import KernelDelayError, UnavailableError
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.objects import refusal
from kernel_delay.loader.programs import Program
from kernel_delay.monitors.datapath_ops.events import OPERATIONS, OperationEvent
from kernel_delay.openvswitch._ovs_records import ffi, lib
from kernel_delay.openvswitch.installed import has_kernel_datapath, why_no_datapath
from kernel_delay.openvswitch.probes import FLOW_RESULTS, files_with
from kernel_delay.openvswitch.programs import OvsPrograms, Probes, text
from kernel_delay.probes.objects import process_objects

LARGEST_EVENT = 1 << 17

REPLIES = "on_unicast"
"""The program that sees what the kernel sends back."""

_FALLBACK = "_fallback"
_ENDS = re.compile(rf".*_exit({_FALLBACK})?$|{REPLIES}")

NETDEV = "operations of a userspace datapath (netdev) are calls within ovs-vswitchd, not netlink's"


def _flows_of_netdev(pid: int) -> str:
    """Say what shows the flows of such a datapath: a monitor, if the process has its probes."""
    with suppress(KernelDelayError):
        objects = process_objects(pid)
        for probe in FLOW_RESULTS:
            files_with(probe, objects)
        return "'kernel-delay flows' shows what it does to flows"
    return "'ovs-appctl dpctl/dump-flows' lists its flows"


class OperationProbes(Probes):
    """Follows a process's operations."""

    def __init__(self, pid: int, ring_bytes: int) -> None:
        """For process `pid`; UnavailableError where there is no datapath to look into."""
        super().__init__(pid)
        reason = why_no_datapath()
        if not has_kernel_datapath(pid):
            none = f"process {pid} has no datapath in the kernel"
            if reason is not None:
                raise UnavailableError(f"{none} ({reason}): {NETDEV}; {_flows_of_netdev(pid)}")
            self.notes.append(f"{none}: {NETDEV}; {_flows_of_netdev(pid)}")
        elif reason is not None:
            raise UnavailableError(reason)
        self._ring_bytes = ring_bytes
        self._joining = Joining()

    def _open(self) -> OvsPrograms:
        return OvsPrograms("datapath_ops", self._pid, self._ring_bytes, LARGEST_EVENT)

    def _attach(self) -> None:
        programs = self._programs
        programs.load()
        try:
            # Of an operation whose begin is seen, so are its reply and the end.
            names = [program.name for program in programs.object.programs()]
            ends = [name for name in names if _ENDS.match(name)]
            for name in [*ends, *(name for name in names if name not in ends)]:
                programs.attach(lambda program: program.attach(), name)
        except BpfError as error:
            raise refusal(error) from error

    def take(self) -> Iterator[OperationEvent]:
        """Take away and yield the operations that have ended."""
        return self._joining.operations(self._programs.all_records())

    def missed(self) -> dict[str, int]:
        """How many operations were not seen since the programs were attached."""
        programs = self._programs
        operations = self._passed_over(lib.EVENT_OPERATION, "_exit")
        # Of what is sent back the programs see that of all processes.
        replies = min(self._passed_over(lib.EVENT_REPLY, REPLIES), self._joining.without_reply)
        return {
            "operations": programs.lost(lib.EVENT_OPERATION) + operations,
            "replies": programs.lost(lib.EVENT_REPLY) + replies,
        }

    def _passed_over(self, event_type: int, part: str) -> int:
        programs = self._programs
        hooks = [each for each in programs.object.programs() if part in each.name]
        reported = (
            programs.reported_by_programs(event_type),
            programs.reported_by_fallbacks(event_type),
        )
        return passed_over(hooks, *reported)


def passed_over(programs: Sequence[Program], by_programs: int, by_fallbacks: int) -> int:
    """Return how many events neither a program nor its fallback was run for, at most.

    Those that were reported, by whom, are given. Which of the two is run first is the kernel's to
    say, and it reports nearly all; the second reports what the first was not run for, except these.
    """
    misses = [0, 0]
    for program in programs:
        misses[program.name.endswith(_FALLBACK)] += program.recursion_misses()
    if by_fallbacks > by_programs:
        misses.reverse()
    of_first, of_second = misses
    return max(0, min(of_first - min(by_programs, by_fallbacks), of_second))


class _Reply(Struct, frozen=True):
    time_ns: int
    message: bytes
    message_len: int


class Joining:
    """Puts each operation together with what the kernel sent back before it ended.

    `without_reply` are those that were done and asked for an echo, of which there is none.
    """

    def __init__(self) -> None:
        """Start before the first; what was sent and not ended yet waits, one of each thread."""
        self._replies: dict[int, _Reply] = {}
        self.without_reply = 0

    def operations(self, records: Iterable[bytes]) -> Iterator[OperationEvent]:
        """Yield the operations that the records say, of each thread in their order."""
        for data in records:
            head = ffi.from_buffer("struct ovs_event *", data[: ffi.sizeof("struct ovs_event")])
            if head.type == lib.EVENT_REPLY:
                record = ffi.from_buffer("struct reply_event *", data)
                message = _message(data, "struct reply_event", record.message_size)
                self._replies[head.tid] = _Reply(head.time_ns, message, record.message_len)
            else:
                operation = _decode(data, self._replies.pop(head.tid, None))
                self.without_reply += _lacks_reply(operation)
                yield operation


def _decode(data: bytes, reply: _Reply | None) -> OperationEvent:
    """The operation that a record says."""
    record = ffi.from_buffer("struct operation_event *", data)
    end_ns = record.event.time_ns
    message = _message(data, "struct operation_event", record.message_size)
    # One of another request is of an operation whose end was lost.
    if reply is not None and _sequence(reply.message) != _sequence(message):
        reply = None
    if reply is not None and not record.entered_ns <= reply.time_ns <= end_ns:
        reply = None
    return OperationEvent(
        time_ns=end_ns,
        cpu=record.event.cpu,
        tid=record.event.tid,
        comm=text(record.event.comm),
        operation=OPERATIONS[record.operation],
        duration_ns=max(end_ns - record.entered_ns, 0) if record.entered_ns else None,
        error=max(record.error, 0),
        message=message,
        message_len=record.message_len,
        reply=reply.message if reply else b"",
        reply_len=reply.message_len if reply else 0,
    )


# include/uapi/linux/netlink.h: of struct nlmsghdr, and of its flags.
_NLMSG_FLAGS = 6
_NLM_F_ECHO = 0x8


def _lacks_reply(operation: OperationEvent) -> bool:
    head = operation.message[: _NLMSG_FLAGS + 2]
    flags = int.from_bytes(head[_NLMSG_FLAGS:], sys.byteorder)
    return bool(flags & _NLM_F_ECHO) and not operation.error and not operation.reply_len


def _sequence(message: bytes) -> bytes:
    """A message's nlmsg_seq (struct nlmsghdr): a reply has that of its request."""
    return message[8:12]


def _message(data: bytes, struct: str, size: int) -> bytes:
    """The message behind a record's struct."""
    at = ffi.sizeof(struct)
    return data[at : at + size]
