"""The events that Open vSwitch's own upcall_cost.py wrote: its --write-events.

utilities/usdt-scripts/upcall_cost.py writes a line of Python for each: `dp_port_map = {…}` first,
`event = {…}` of the fields of its struct event_t, and `event_miss = {…}` at the end.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from kernel_delay.errors import InputError, NoInputError
from kernel_delay.formatting import printable
from kernel_delay.monitors.upcalls.events import (
    DpUpcall,
    Event,
    FlowExecute,
    FlowPut,
    PacketCmdExecute,
    RecvUpcall,
)

_PORTS, _EVENT, _MISSED = b"dp_port_map = ", b"event = ", b"event_miss = "

# An event with all of a packet of 64 KiB, each byte of it as \x00.
_LONGEST_LINE = 1 << 19

# Its EVENT_*, in their order.
_KINDS = (RecvUpcall, DpUpcall, FlowPut, FlowExecute, PacketCmdExecute)

# What literal_eval() makes of text that is no literal, or that nests without end.
_NO_LITERAL = (ValueError, SyntaxError, RecursionError, MemoryError, TypeError)


class _Written(msgspec.Struct, frozen=True):
    """struct event_t; packets and keys are as long as its arrays, whatever was copied.

    What a kind of event has no use for is as it was in memory: op_flow_put's and
    ovs_packet_cmd_execute's packets.
    """

    event: int
    cpu: int
    pid: int
    ts: int
    pkt_frag_size: int
    pkt_size: int
    key_size: int
    comm: bytes
    dpif_name: bytes
    dev_name: bytes
    pkt: bytes
    key: bytes


_Ports = Mapping[str, Mapping[str, int]]
_Kind = TypeVar("_Kind")


class ScriptEvents:
    """A file of the script's, read once, in bounded memory. A context manager.

    `missed` counts, by the types of our events, what the script itself missed: known at the end.
    `unknown_ports` counts the kernel's upcalls from ports that the script did not know.
    """

    def __init__(self, path: Path) -> None:
        """Open it. Raises NoInputError where that can't be."""
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise NoInputError(f"can't read {path}: {error.strerror}") from None
        self._name = str(path)
        self._ports: _Ports = {}
        self.missed: dict[str, int] = {}
        self.unknown_ports = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[Event]:
        """Yield the events in the order of the file.

        Raises InputError at a line that the script does not write, or only began to.
        """
        number = 0
        while line := self._file.readline(_LONGEST_LINE):
            number += 1
            try:
                event = self._take(line)
            except (*_NO_LITERAL, msgspec.ValidationError):
                raise InputError(
                    f"line {number} of {printable(self._name)!r} is not what upcall_cost.py writes:"
                    " it was cut there, or changed"
                ) from None
            if event is not None:
                yield event

    def _take(self, line: bytes) -> Event | None:
        if line.startswith(_EVENT):
            written = _converted(line.removeprefix(_EVENT), _Written)
            return self._event(written)
        if line.startswith(_PORTS):
            self._ports = _converted(line.removeprefix(_PORTS), dict[str, dict[str, int]])
        elif line.startswith(_MISSED):
            for kind, count in _converted(line.removeprefix(_MISSED), dict[int, int]).items():
                tag = str(_KINDS[_checked(kind)].__struct_config__.tag)
                self.missed[tag] = count
        else:
            raise ValueError("another line")
        return None

    def _event(self, written: _Written) -> Event:
        where: dict[str, Any] = {
            "time_ns": written.ts,
            "cpu": written.cpu,
            "tid": written.pid,
            "comm": _text(written.comm),
        }
        packet = written.pkt[: written.pkt_size]
        match _KINDS[_checked(written.event)]:
            case kind if kind is RecvUpcall:
                return RecvUpcall(
                    **where,
                    datapath=_text(written.dpif_name),
                    kind="miss",
                    packet=packet,
                    packet_len=written.pkt_size,
                    key=written.key[: written.key_size],
                    key_len=written.key_size,
                )
            case kind if kind is DpUpcall:
                return self._kernel_upcall(written, where)
            case kind if kind is FlowPut:
                return FlowPut(**where)
            case kind if kind is FlowExecute:
                return FlowExecute(**where, packet=packet, packet_len=written.pkt_size)
            case _:
                return PacketCmdExecute(**where)

    def _kernel_upcall(self, written: _Written, where: dict[str, Any]) -> DpUpcall:
        datapath, device = _text(written.dpif_name), _text(written.dev_name)
        port = self._ports.get(datapath, {}).get(device)
        self.unknown_ports += port is None
        linear_len = written.pkt_frag_size or written.pkt_size
        return DpUpcall(
            **where,
            datapath=datapath,
            device=device,
            kind="miss",
            packet=written.pkt[:linear_len],
            packet_len=written.pkt_size,
            linear_len=linear_len,
            in_port=port,
        )


def is_of_script(path: Path) -> bool:
    """Whether the file begins as the script's do; False where it can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_PORTS)) == _PORTS
    except OSError:
        return False


def _converted(literal: bytes, kind: type[_Kind]) -> _Kind:
    value = ast.literal_eval(literal.decode("utf-8", "strict").strip())
    return msgspec.convert(value, kind, builtin_types=(bytes,))


def _checked(kind: int) -> int:
    if not 0 <= kind < len(_KINDS):
        raise ValueError("another kind of event")
    return kind


def _text(name: bytes) -> str:
    return name.partition(b"\0")[0].decode("utf-8", "backslashreplace")
