"""A line of a log: what vlog wrote (lib/vlog.c, 2.4 to 4.0), and what others put around it.

A file has `TIME|NUMBER|MODULE(THREAD)|LEVEL|MESSAGE`, syslog and journald `ovs|NUMBER|…` behind
a time, a host and a program of their own. A container's runtime puts its own time before the
line, or the line into JSON. The main thread has no name.
"""

import datetime
import re
from collections.abc import Callable

import msgspec
from msgspec import Struct

LONGEST_MESSAGE = 300
"""Bytes of a message that are kept."""

LONGEST_PREFIX = 512

_HEAD = re.compile(
    rb"(?:(?:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z|\bovs)\|(\d{1,10})|^)"
    rb"\|([A-Za-z][\w.-]{0,63})(?:\(([^|)]{0,32})\))?\|(EMER|ERR|WARN|INFO|DBG)\|"
)

# lib/vlog.c:vlog_valist(), for --syslog-target: it has neither number nor thread.
_RFC5424 = re.compile(
    rb"<\d{1,3}>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z (\S{1,255}) (\S{1,64}) \d{1,10}"
    rb" ([A-Za-z][\w.-]{0,63}) - (?:\xef\xbb\xbf)?"
)

_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z\b|UTC\b|[+-]\d\d:?\d\d\b)?"
)
_TRADITIONAL = re.compile(r"([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?=\s)")
_IDENTITY = re.compile(r"\s(\S{1,255}) ([\w.-]{1,64})(?:\[\d+\])?: ")
_REPEATED = re.compile(r"message repeated (\d{1,6}) times: \[ ?")

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# As syslog has it.
_DAY = datetime.timedelta(days=1)


class Zone(Struct, frozen=True):
    """How times without a zone or a year are read: `zone` is where, `newest` when at the latest."""

    zone: datetime.tzinfo
    newest: datetime.datetime


class Line(Struct):
    """A line of vlog's.

    time: when it was written, in UTC; None: it does not say.
    has_zone: whether the line says of which zone its time is.
    number: as its thread counts them; None in RFC 5424's form, and of a line that lacks its head.
    thread: "" is the main one; None: not known.
    repeated: how often it stands for, as rsyslog writes it.
    """

    time: datetime.datetime | None
    has_zone: bool
    program: str
    host: str
    number: int | None
    module: str
    thread: str | None
    level: str
    message: str
    repeated: int = 1


class _Journal(Struct):
    """A line of `journalctl -o json`, or of Docker's json-file."""

    MESSAGE: str | list[int] | None = None
    REALTIME: str | None = msgspec.field(default=None, name="__REALTIME_TIMESTAMP")
    HOST: str | None = msgspec.field(default=None, name="_HOSTNAME")
    IDENTIFIER: str | None = msgspec.field(default=None, name="SYSLOG_IDENTIFIER")
    log: str | None = None


_decode: Callable[[bytes], _Journal] = msgspec.json.Decoder(_Journal).decode


def parse(raw: bytes, zone: Zone) -> Line | None:
    """Return what a line says; None if vlog did not write it."""
    if b"|" not in raw:
        return _rfc5424(raw) if b" - " in raw else None
    if raw.startswith(b"{"):
        return _of_json(raw, zone)
    match = _HEAD.search(raw, 0, LONGEST_PREFIX)
    if match is None:
        return _rfc5424(raw)
    time, number, module, thread, level = match.groups()
    line = Line(
        time=None if time is None else _utc(time),
        has_zone=time is not None,
        program="",
        host="",
        number=None if number is None else int(number),
        module=module.decode(),
        thread="" if thread is None else _text(thread),
        level=level.decode(),
        message=_text(raw[match.end() : match.end() + LONGEST_MESSAGE]),
    )
    if match.start():
        _add_prefix(line, _text(raw[: match.start()]), zone)
    return line


def _add_prefix(line: Line, prefix: str, zone: Zone) -> None:
    """Take what is before vlog's own: who wrote it, and when if vlog itself does not say."""
    if line.time is None:
        line.time, line.has_zone = _time_of(prefix, zone)
    if match := _REPEATED.search(prefix):
        line.repeated = max(1, int(match[1]))
        line.message = line.message.removesuffix("]")
        prefix = prefix[: match.start()]
    if match := _IDENTITY.search(prefix):
        line.host, line.program = match.groups()


def _time_of(prefix: str, zone: Zone) -> tuple[datetime.datetime | None, bool]:
    if match := _ISO.search(prefix):
        day, clock, fraction, offset = match.groups()
        offset = "+00:00" if offset in ("Z", "UTC") else offset
        time = _parsed(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{offset or ''}")
        has_zone = offset is not None
        return _in_utc(time, zone), has_zone
    if match := _TRADITIONAL.search(prefix):
        return _without_year(match, zone), False
    return None, False


def _without_year(match: re.Match[str], zone: Zone) -> datetime.datetime | None:
    """Return the last such time that is not after the newest."""
    month, day, clock, fraction = match.groups()
    if month not in _MONTHS:
        return None
    number = _MONTHS.index(month) + 1
    for year in (zone.newest.year + 1, zone.newest.year, zone.newest.year - 1):
        text = f"{year}-{number:02}-{int(day):02}T{clock}.{(fraction or '0')[:6]:0<6}"
        time = _in_utc(_parsed(text), zone)
        if time is not None and time <= zone.newest + _DAY:
            return time
    return None


def _in_utc(time: datetime.datetime | None, zone: Zone) -> datetime.datetime | None:
    if time is None:
        return None
    try:
        return (time if time.tzinfo else time.replace(tzinfo=zone.zone)).astimezone(datetime.UTC)
    except OverflowError:
        return None


def _rfc5424(raw: bytes) -> Line | None:
    match = _RFC5424.search(raw, 0, LONGEST_PREFIX)
    if match is None:
        return None
    time, host, program, module = match.groups()
    return Line(
        time=_utc(time),
        has_zone=True,
        program=_text(program),
        host=_text(host),
        number=None,
        module=module.decode(),
        thread=None,
        level="WARN",
        message=_text(raw[match.end() : match.end() + LONGEST_MESSAGE]),
    )


def _of_json(raw: bytes, zone: Zone) -> Line | None:
    try:
        entry = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    message = entry.log if entry.log is not None else entry.MESSAGE
    if isinstance(message, list):
        message = bytes(each & 0xFF for each in message).decode(errors="replace")
    if not message or message.startswith("{"):
        return None
    line = parse(message.rstrip("\n").encode(errors="replace"), zone)
    if line is None:
        return None
    if line.time is None and entry.REALTIME is not None:
        line.time, line.has_zone = _of_microseconds(entry.REALTIME), True
    line.host = line.host or entry.HOST or ""
    line.program = line.program or entry.IDENTIFIER or ""
    return line


def _of_microseconds(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromtimestamp(int(text[:18]) / 1e6, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _utc(text: bytes) -> datetime.datetime | None:
    return _parsed(f"{text.decode()}Z")


def _parsed(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
