"""Lines for each upcall that is received or dropped, and a file of their packets; or JSON."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.host.errnos import error_name, error_text
from kernel_delay.monitors.monitor import Outputs, Report
from kernel_delay.monitors.upcalls.events import (
    SYSTEM,
    DpUpcall,
    Event,
    PortName,
    PortNames,
    RecvUpcall,
    UpcallEvents,
)
from kernel_delay.openvswitch.flow_key import datapath_port, format_key, nlraw_lines
from kernel_delay.openvswitch.packets import hex_lines, packet_decoder
from kernel_delay.reporters import print_message

Upcall = RecvUpcall | DpUpcall
KeyDecode = Literal["none", "hex", "nlraw", "decode"]

HEADER = (
    f"{'TIME':<18} {'CPU':>4}  {'COMM':<16} {'PID':>10} {'DPIF_NAME':<20} {'PORT':<16} "
    f"{'TYPE':<6} {'PKT_LEN':>7} {'KEY_LEN':>7} RESULT"
)


class Show(Struct, frozen=True):
    """What is shown below an upcall's line: `packet` makes lines of a packet, None shows none."""

    packet: Callable[[bytes], Sequence[str]] | None = None
    key: KeyDecode = "none"


def upcall_lines(upcall: Upcall, port: str, number: int, show: Show) -> list[str]:
    """The `number`th upcall, under HEADER: one that was received, or one that was dropped.

    A dropped one is in the thread that was on the CPU when its packet came.
    """
    lines = [_line(upcall, port)]
    if isinstance(upcall, RecvUpcall) and show.key != "none":
        lines.append(
            f"  Flow key size {upcall.key_len} bytes, size captured {len(upcall.key)} bytes."
        )
        lines += [f"    {line}" for line in _key_lines(upcall, show.key)]
    if show.packet is not None:
        received = isinstance(upcall, RecvUpcall)
        lines.append(
            f"{number}: {'Receive' if received else 'Drop'} dp_port {_number(upcall)}, packet size "
            f"{upcall.packet_len} bytes, size captured {len(upcall.packet)} bytes."
        )
        lines += show.packet(upcall.packet)
    return lines


def comment(upcall: Upcall, port: str) -> str:
    """What a file of packets says of one."""
    return (
        f"cpu {upcall.cpu}, {printable(upcall.comm)} ({upcall.tid}), {_datapath(upcall)}, "
        f"port {_number(upcall)} ({printable(port)}), {upcall.kind}, {result(upcall)}"
    )


def result(upcall: Upcall) -> str:
    """`ok`, or the name of the error with which the kernel dropped it."""
    return error_name(upcall.error) if isinstance(upcall, DpUpcall) else "ok"


def summary(received: int, dropped: Counter[str], missed: int) -> str:
    """What it all came to; `dropped` by the error's name."""
    parts = [f"{received} upcalls received", f"{dropped.total()} dropped by the kernel"]
    if dropped:
        parts[-1] += f" ({', '.join(f'{name} {n}' for name, n in sorted(dropped.items()))})"
    if missed:
        parts.append(missed_text(missed))
    return ", ".join(parts)


def missed_text(missed: int) -> str:
    """How many events were missed, and what that means."""
    return f"{missed} events missed: there were more upcalls than could be shown"


def json_of(upcall: Upcall, port: str) -> Mapping[str, object]:
    """The upcall for JSON: its key as text, its packet as hexadecimal digits."""
    received = upcall if isinstance(upcall, RecvUpcall) else None
    return {
        "time_ns": upcall.time_ns,
        "cpu": upcall.cpu,
        "tid": upcall.tid,
        "comm": upcall.comm,
        "datapath": _dpif_name(upcall),
        "port": port,
        "in_port": port_number(upcall),
        "kind": upcall.kind,
        "result": result(upcall),
        "packet_len": upcall.packet_len,
        "packet": upcall.packet.hex(),
        "key_len": received and received.key_len,
        "key": received and format_key(received.key, received.key_len),
    }


def port_number(upcall: Upcall) -> int | None:
    """The datapath port that its packet came from; None for none."""
    return upcall.in_port if isinstance(upcall, DpUpcall) else datapath_port(upcall.key)


def _line(upcall: Upcall, port: str) -> str:
    key_len = upcall.key_len if isinstance(upcall, RecvUpcall) else "-"
    seconds, rest_ns = divmod(upcall.time_ns, 10**9)
    outcome = result(upcall)
    if isinstance(upcall, DpUpcall):
        outcome += f" ({error_text(upcall.error)})"
    return (
        f"{f'{seconds}.{rest_ns:09}':<18} [{upcall.cpu:03}] {printable(upcall.comm):<16} "
        f"{upcall.tid:>10} {_datapath(upcall):<20} {printable(port):<16} {upcall.kind:<6} "
        f"{upcall.packet_len:>7} {key_len:>7} {outcome}"
    )


def _datapath(upcall: Upcall) -> str:
    return printable(_dpif_name(upcall))


def _dpif_name(upcall: Upcall) -> str:
    system = SYSTEM if isinstance(upcall, DpUpcall) else ""
    return f"{system}{upcall.datapath}"


def key_comments(upcall: Upcall, how: KeyDecode) -> list[str]:
    """The flow key of a received upcall for a file of packets, where keys are shown."""
    if how == "none" or not isinstance(upcall, RecvUpcall):
        return []
    return ["\n".join(_key_lines(upcall, how))]


def _key_lines(upcall: RecvUpcall, how: KeyDecode) -> list[str]:
    match how:
        case "hex":
            return hex_lines(upcall.key)
        case "nlraw":
            return nlraw_lines(upcall.key, upcall.key_len)
        case _:
            return [format_key(upcall.key, upcall.key_len)]


def _number(upcall: Upcall) -> str:
    number = port_number(upcall)
    return "-" if number is None else str(number)


class MonitorReport(Report[UpcallEvents]):
    """Upcalls, counted whether or not they are shown."""

    def __init__(
        self,
        outputs: Outputs,
        *,
        result: str,
        packet: str,
        key: KeyDecode,
    ) -> None:
        """Of upcalls with this result; `packet` and `key` say how these are shown."""
        super().__init__(outputs)
        self._received = self._shown = 0
        self._dropped = Counter[str]()
        self._result = result
        self._show = _show(packet, key)
        self._ports = PortNames()

    def begin(self) -> None:
        """Print what is above all upcalls."""
        if self._text:
            print(HEADER, flush=True)

    def take(self, record: UpcallEvents) -> UpcallEvents:
        """Take the next events."""
        for event in record.events:
            self._take(event, record.since_epoch_ns)
        return record

    def finish(self, missed: Mapping[str, int]) -> None:
        """Print what it all came to."""
        lost = sum(missed.values())
        if self._text:
            print(summary(self._received, self._dropped, lost))
        elif lost:
            print_message(missed_text(lost))

    def _take(self, event: Event | PortName, since_epoch_ns: int) -> None:
        match event:
            case PortName():
                self._ports.learn(event)
            case RecvUpcall():
                self._received += 1
                if self._result != "error":
                    self._put_out(event, since_epoch_ns)
            case DpUpcall():
                self._dropped[error_name(event.error)] += 1
                if self._result != "ok":
                    self._put_out(event, since_epoch_ns)

    def _put_out(self, upcall: Upcall, since_epoch_ns: int) -> None:
        self._shown += 1
        port = self._ports.name(upcall.datapath, port_number(upcall))
        if self._json is not None:
            self._json(json_of(upcall, port))
        if self._text:
            print("\n".join(upcall_lines(upcall, port, self._shown, self._show)))
        if self._packets is not None:
            time_ns = upcall.time_ns + since_epoch_ns
            comments = [comment(upcall, port), *key_comments(upcall, self._show.key)]
            self._packets.write_packet(time_ns, port, upcall.packet, upcall.packet_len, comments)


def _show(packet: str, key: KeyDecode) -> Show:
    match packet:
        case "hex":
            return Show(hex_lines, key)
        case "decode":
            return Show(packet_decoder(), key)
    return Show(None, key)
