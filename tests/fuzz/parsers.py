"""What others can write and kernel-delay reads in Python, each as a function of bytes.

Each raises for a defect: an exception that its callers don't expect, or a result
that can't be. What takes longer than the fuzzer's limit is one as well.
"""

import ctypes
import datetime
import io
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, cast

from kernel_delay.commands.log import text as logs_text
from kernel_delay.commands.log.files import find
from kernel_delay.commands.log.survey import survey
from kernel_delay.errors import InputError
from kernel_delay.formatting import printable
from kernel_delay.host.stored_files import Root
from kernel_delay.host.target import find_target
from kernel_delay.model import Sample
from kernel_delay.monitors.bridge_loop import report as bridge_loop
from kernel_delay.monitors.bridge_loop.events import BridgeLoop, LoopEvents
from kernel_delay.monitors.datapath_ops import report as datapath_ops
from kernel_delay.monitors.datapath_ops.events import OperationEvents
from kernel_delay.monitors.datapath_ops.message import read_request
from kernel_delay.monitors.flows import report as flow_lines
from kernel_delay.monitors.flows.events import FlowChurn, FlowEvents
from kernel_delay.monitors.revalidator import report as revalidator
from kernel_delay.monitors.revalidator.events import Revalidation, RevalidatorRounds
from kernel_delay.monitors.upcalls.events import Event, PortName, UpcallEvents
from kernel_delay.monitors.upcalls.join import join
from kernel_delay.openvswitch.flow_key import FlowFilter, format_key, format_match, nlraw_lines
from kernel_delay.openvswitch.losses.answers import parse_datapath, parse_events, parse_limits
from kernel_delay.openvswitch.packets import PcapngWriter
from kernel_delay.probes.arguments import parse_arguments
from kernel_delay.probes.object_layout import ObjectLayout
from kernel_delay.probes.usdt import decode_notes, read_usdt_probes
from kernel_delay.recording.frames import CutError
from kernel_delay.recording.frames import lines as recorded_lines
from kernel_delay.recording.reader import RecordingReader
from kernel_delay.reporters import folded, json, text
from kernel_delay.reporters.layout import IN_A_PIPE
from kernel_delay.symbols.bounds import Bounds
from kernel_delay.symbols.debug_files import find_debug_files
from kernel_delay.symbols.elf import (
    DebugLink,
    Elf,
    Segment,
    read_alt_link,
    read_elf,
    read_elf_image,
)
from kernel_delay.symbols.functions import Functions
from kernel_delay.symbols.go_functions import GoFunctions
from kernel_delay.symbols.mappings import code_ranges, parse_mapping
from kernel_delay.symbols.perf_map import parse as parse_perf_map
from kernel_delay.symbols.perf_map import trampolines

# <linux/prctl.h>
PR_SET_NAME = 15

HEAD = b"7f0000000000-7f0000001000 r-xp 00000000 fe:00 7 "


def maps(data: bytes) -> None:
    """A mapped file's path, as the kernel writes it into maps."""
    path = data.replace(b"\0", b"").lstrip()
    mapping = parse_mapping(HEAD + path.replace(b"\n", b"\\012"))
    assert (mapping.start, mapping.end, mapping.inode) == (0x7F0000000000, 0x7F0000001000, 7)
    kept = os.fsencode(mapping.path) + (b" (deleted)" if mapping.deleted else b"")
    assert kept == path.replace(b"\\012", b"\n")
    assert printable(mapping.path).isprintable()
    assert code_ranges([mapping]).find(0x7F0000000FFF) is mapping


def elf(data: bytes) -> None:
    """The headers, notes and links of an ELF file, and of one in memory."""
    with _file(data) as file:
        of_file, of_memory = read_elf(file.fileno()), read_elf_image(data)
        assert of_file == of_memory
        read_alt_link(file.fileno())
    if of_file is not None:
        assert all(segment.address >= 0 for segment in of_file.segments)
        assert of_file.build_id is None or of_file.build_id in data
        of_file.bias(0x7F0000000000, 0)


def debug_link(data: bytes) -> None:
    """A debug file's name, as its program gives it."""
    name, _, rest = data.partition(b"\0")
    link = DebugLink(os.fsdecode(name), 0)
    linked = Elf(62, (), rest[:64] or None, link)
    root = Root(Path("/proc/self/fdinfo"))  # where nothing is that could be read
    try:
        assert find_debug_files(linked, "/usr/lib/libc.so.6", [root], Bounds()) is None
    finally:
        root.close()


def functions(data: bytes) -> None:
    """The functions of an ELF file, through libdw."""
    with _file(data) as file, suppress(InputError):
        found = Functions.read(file.fileno(), "/fuzzed")
        for function in found.matching("*"):
            assert function.name
            assert 0 <= function.file_offset < 1 << 64


def perf_map(data: bytes) -> None:
    """The names of generated code, as the process writes them."""
    found = parse_perf_map(data)
    assert len(found) <= data.count(b"\n")
    for start, (size, name) in found.items():
        assert 0 <= start < 1 << 64
        assert 0 < size < 1 << 64
        assert name
        assert printable(name).isprintable()
    ends = trampolines(found)
    assert list(ends) == sorted(ends)


def go_functions(data: bytes) -> None:
    """A Go program's table of its functions."""
    with suppress(ValueError):
        table = GoFunctions(data, 0x401000)
        for address in (*range(0x401000, 0x401100, 8), 1 << 32, (1 << 64) - 1):
            found = table.find(address)
            assert found is None or (found[0] and found[1] >= 0)


def usdt(data: bytes) -> None:
    """An ELF file with USDT probes."""
    with suppress(InputError):
        read_usdt_probes(io.BytesIO(data), "fuzzed")


TEXT = Segment(address=0x401000, offset=0x1000, size=0x1000, executable=True, writable=False)
DATA = Segment(address=0x403000, offset=0x2800, size=0x100, executable=False, writable=True)


def usdt_notes(data: bytes) -> None:
    """A section of USDT notes."""
    found = decode_notes(ObjectLayout("X86_64", 8, "little", (TEXT, DATA), data, 0x403000))
    assert len(found.probes) + found.malformed_notes <= 1 + len(data) // 12
    assert all(0x1000 <= probe.file_offset < 0x2000 for probe in found.probes)


def usdt_arguments(data: bytes) -> None:
    """A USDT note's arguments."""
    text = data[:1024].decode(errors="backslashreplace")
    for machine in ("X86_64", "AARCH64", "386"):
        for argument in parse_arguments(text, machine):
            assert str(argument)


def comm(data: bytes) -> None:
    """A process's name, in /proc/PID/comm and between the brackets of /proc/PID/stat: our own."""
    name = data.partition(b"\0")[0][:15]
    before = Path("/proc/self/comm").read_bytes().removesuffix(b"\n")
    _rename(name)
    try:
        target = find_target(os.getpid())
    finally:
        _rename(before)
    assert target.comm == name.decode(errors="backslashreplace")
    assert printable(target.comm).isprintable()


def flow_key(data: bytes) -> None:
    """A flow key of netlink attributes, whole and cut."""
    for size in (None, len(data) + 40):
        assert printable(format_key(data, size)) == format_key(data, size)
        assert all(line.isprintable() for line in nlraw_lines(data, size))
    assert format_match(data, data[size:], size).isprintable()
    for asked in ("ipv4(src=10.0.0.0/8),udp(dst=53)", "tunnel(src=1.1.1.1)", "mpls(tc=1,tc=2)"):
        assert FlowFilter(asked).covers(data, data[size:]) in (True, False)


def recording(data: bytes) -> None:
    """A recording as plain lines, and what is made of each thing that is in it."""
    events: list[Event] = []
    loop, revalidation, churn = BridgeLoop(), Revalidation(), FlowChurn()
    operations = datapath_ops.Summary()
    with suppress(InputError):
        for record in RecordingReader(io.BytesIO(data), "recording").read():
            match record:
                case Sample():
                    assert text.render(record).endswith("\n")
                    assert text.render(record).endswith("\n")
                    assert json.render(record).count("\n") == 1
                    assert all(line.endswith("\n") for line in folded.lines(record))
                case UpcallEvents():
                    events += (event for event in record.events if not isinstance(event, PortName))
                case LoopEvents():
                    for hit in record.hits:
                        loop.add(hit.event)
                case RevalidatorRounds():
                    for found in record.rounds:
                        rounds = revalidation.of(found)
                        since = rounds.take(found)
                        lines = [
                            revalidator.datapath_line(rounds, found),
                            revalidator.round_line(rounds, found),
                            *revalidator.remark_lines(found, since),
                        ]
                        assert all(line.isprintable() for line in lines)
                case OperationEvents():
                    for operation in record.events:
                        request = read_request(
                            operation.operation, operation.message, operation.message_len
                        )
                        operations.take(operation)
                        lines = datapath_ops.event_lines(operation, request)
                        assert all(line.isprintable() for line in lines)
                case FlowEvents():
                    for event in record.events:
                        came_back = churn.take(event)
                        lines = flow_lines.event_lines(event, match=True, came_back=came_back)
                        assert all(line.isprintable() for line in lines)
    joined = join(events)
    assert len(joined.sets) <= sum(joined.total.values())
    assert "passes in" in bridge_loop.render(loop)
    assert "round" in revalidator.render(revalidation)
    assert operations.render(0)
    assert "flows made" in flow_lines.render(churn, 0, 0)


def log(data: bytes) -> None:
    """A log of Open vSwitch's; the report has nothing that drives a terminal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ovs-vswitchd.log")
        path.write_bytes(data)
        found = survey(find([str(path)]).logs, (), datetime.UTC)
    report = "".join(logs_text.lines(found, IN_A_PIPE))
    assert all(character.isprintable() or character == "\n" for character in report)
    assert json.render(logs_text.document(found)).isascii()


def ovs_answers(data: bytes) -> None:
    """What ovs-vswitchd answers of its losses: counts that a recording has room for."""
    text = data.decode(errors="replace")
    datapath = parse_datapath(text)
    ports = datapath.ports if datapath else ()
    counts = [count for port in ports for count in (port.rx_packets, port.tx_dropped)]
    counts += [*parse_events(text).values(), *(each.limit for each in parse_limits(text))]
    assert all(0 <= count < 1 << 63 for count in counts)


def recording_frames(data: bytes) -> None:
    """The same as zstd frames: no line that is not whole."""
    with suppress(InputError, CutError):
        assert all(line.endswith(b"\n") for line in recorded_lines(io.BytesIO(data)))


def pcapng(data: bytes) -> None:
    """A packet and its interface's name: one block each, whole."""
    name, _, packet = data.partition(b"\0")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "packets")
        with PcapngWriter(path) as writer:
            interface = name.decode(errors="backslashreplace")
            writer.write_packet(1, interface, packet, len(packet) + 1, [interface])
        written, at = path.read_bytes(), 0
        while at < len(written):
            length = int.from_bytes(written[at + 4 : at + 8], "little")
            assert length >= 12
            assert length % 4 == 0
            assert written[at + length - 4 : at + length] == written[at + 4 : at + 8]
            at += length
        assert at == len(written)


def _file(data: bytes) -> BinaryIO:
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    file.write(data)
    file.flush()
    return cast(BinaryIO, file)


def _rename(name: bytes) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, ctypes.c_char_p(name))


PARSERS: Mapping[str, Callable[[bytes], None]] = MappingProxyType(
    {
        parser.__name__: parser
        for parser in (
            maps,
            elf,
            debug_link,
            functions,
            perf_map,
            go_functions,
            usdt,
            usdt_notes,
            usdt_arguments,
            comm,
            flow_key,
            recording,
            log,
            ovs_answers,
            recording_frames,
            pcapng,
        )
    }
)
