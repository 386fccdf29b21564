"""What a running Open vSwitch answers on its control socket, as ovs-appctl(8) asks it.

The protocol is JSON-RPC 1.0, one object after the other (lib/unixctl.c, Open vSwitch 2.17 to 4.0).
The main thread answers: it is asked without waiting, never twice at once, and never while it is
stopped.
"""

import _socket
import codecs
import json
import os
import select
import struct
import time
from collections.abc import Iterable
from pathlib import Path

from kernel_delay.errors import UnavailableError
from kernel_delay.host.open_files import links
from kernel_delay.host.stored_files import Root

# Of all answers that come at once; what is there is taken for so long at most.
MOST_BYTES = 1 << 20
TAKEN_WITHIN_S = 0.1
_CHUNK = 1 << 16

# __SO_ACCEPTCON, include/uapi/linux/net.h: in the flags of /proc/net/unix.
_LISTENS = 0x10000

# struct ucred of unix(7).
_UCRED = struct.Struct("3i")

Command = tuple[str, ...]
"""A command and its arguments."""


class Answers:
    """The answers to commands that were asked at once.

    Attributes:
        texts: the answers that are there, by the command.
        problem: why there are no others. None: they may still come.
        asked_ns: when they were asked, CLOCK_MONOTONIC.
    """

    def __init__(self, problem: str | None = None) -> None:
        """None of them is there."""
        self.texts: dict[Command, str] = {}
        self.problem = problem
        self.asked_ns = time.monotonic_ns()


class Unixctl:
    """A connection to the control socket of a process."""

    def __init__(self, pid: int) -> None:
        """Connect.

        Raises UnavailableError where the process has no such socket, or refuses.
        """
        self._pid = pid
        self._number = 0
        self._asked: dict[int, tuple[Answers, Command]] = {}
        self._received = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._socket = _connected(_control_socket(pid), pid)

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()

    def ask(self, commands: Iterable[Command]) -> Answers:
        """Send the commands, and do not wait; receive() fills the answers in."""
        self.receive(0.0)
        if self._asked:
            return Answers("it has not answered before")
        if _is_stopped(self._pid):
            return Answers("it is stopped")
        answers, requests = Answers(), []
        for command in commands:
            self._number += 1
            method, *params = command
            requests.append(json.dumps({"id": self._number, "method": method, "params": params}))
            self._asked[self._number] = answers, command
        try:
            message = "".join(requests).encode()
            if self._socket.send(message) == len(message):
                return answers
        except OSError:
            pass
        self._give_up("its control socket takes no request")
        return answers

    def receive(self, within_s: float) -> None:
        """Take the answers that are there, or come within that time."""
        until = time.monotonic() + within_s
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        received = 0
        # Whoever sends without end is not listened to without end.
        while self._asked and time.monotonic() < until + TAKEN_WITHIN_S:
            if not poll.poll(1000 * max(0.0, until - time.monotonic())):
                return
            try:
                chunk = self._socket.recv(_CHUNK)
            except OSError:
                chunk = b""
            received += len(chunk)
            self._received += self._decoder.decode(chunk)
            if not chunk or max(received, len(self._received)) > MOST_BYTES:
                self._give_up("its answer is too long" if chunk else "it hung up")
            elif chunk.endswith(b"}"):
                self._parse()

    def _parse(self) -> None:
        at, decoder = 0, json.JSONDecoder()
        while at < len(self._received):
            try:
                answer, at = decoder.raw_decode(self._received, at)
            except (ValueError, RecursionError):
                break  # what is missing has yet to come
            while self._received[at : at + 1].isspace():
                at += 1
            self._note(answer)
        self._received = self._received[at:]

    def _note(self, answer: object) -> None:
        if not isinstance(answer, dict):
            return
        number, text = answer.get("id"), answer.get("result")
        if not isinstance(number, int) or number not in self._asked:
            return
        answers, command = self._asked.pop(number)
        if isinstance(text, str):
            # JSON may have half of a pair of UTF-16, which no recording can have.
            answers.texts[command] = text.encode(errors="backslashreplace").decode()

    def _give_up(self, problem: str) -> None:
        for answers, _ in self._asked.values():
            answers.problem = problem
        self._asked.clear()
        self._received = ""
        self._decoder.reset()


def _control_socket(pid: int) -> str:
    """Where the process listens for commands: a path in its own mount namespace."""
    own = {link for _, link in links(pid)}
    try:
        text = Path(f"/proc/{pid}/net/unix").read_bytes()
    except OSError as error:
        raise UnavailableError(f"its sockets can't be read: {error.strerror}") from None
    # Only a newline ends a line, and a path need not be UTF-8.
    for line in map(os.fsdecode, text.split(b"\n")[1:]):
        words = line.split(None, 7)
        if len(words) < 8 or not words[7].endswith(".ctl") or not _listens(words[3]):
            continue
        if f"socket:[{words[6]}]" in own:
            return words[7]
    raise UnavailableError("it has no control socket")


def _listens(flags: str) -> bool:
    # Abstract names hold any bytes: some lines are not the kernel's.
    try:
        return bool(int(flags, 16) & _LISTENS)
    except ValueError:
        return False


def _connected(path: str, pid: int) -> _socket.socket:
    """Connect to the process's own socket; what else is at that path is sent nothing."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        _connect(connection, path, pid)
        listens = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED.size)
    except OSError as error:
        connection.close()
        raise UnavailableError(f"its control socket can't be used: {error.strerror}") from None
    if _UCRED.unpack(listens)[0] != pid:
        connection.close()
        # Not by its path: whoever chose that may have written anything there.
        raise UnavailableError("its control socket can't be used: another process listens there")
    return connection


def _connect(connection: _socket.socket, path: str, pid: int) -> None:
    root = Root(Path(f"/proc/{pid}/root"))
    try:
        found = root.find(path)
        try:
            connection.connect(f"/proc/self/fd/{found}")
        finally:
            os.close(found)
    finally:
        root.close()


def _is_stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "TtZX"
