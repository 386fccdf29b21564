"""What a running Open vSwitch answers on its control socket, as ovs-appctl(8) asks it.

The protocol is JSON-RPC 1.0, one object after the other (lib/unixctl.c, Open vSwitch 2.17 to 4.0).
The main thread answers: it is asked without waiting, never twice at once, and never while it is
stopped.
"""

import _socket
import json
import os
import select
import time
from collections.abc import Iterable
from pathlib import Path

from kernel_delay.errors import UnavailableError
from kernel_delay.host.open_files import links

# Of an answer, or of several that come at once.
MOST_BYTES = 1 << 20
_CHUNK = 1 << 16

# __SO_ACCEPTCON, include/uapi/linux/net.h: in the flags of /proc/net/unix.
_LISTENS = 0x10000

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
        self._received = b""
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
        while self._asked:
            if not poll.poll(1000 * max(0.0, until - time.monotonic())):
                return
            try:
                chunk = self._socket.recv(_CHUNK)
            except OSError:
                chunk = b""
            self._received += chunk
            if not chunk or len(self._received) > MOST_BYTES:
                self._give_up("its answer is too long" if chunk else "it hung up")
            elif chunk.endswith(b"}"):
                self._parse()

    def _parse(self) -> None:
        decoder, rest = json.JSONDecoder(), self._received.decode(errors="replace")
        while rest:
            try:
                answer, end = decoder.raw_decode(rest)
            except (ValueError, RecursionError):
                return  # what is missing has yet to come; what was found is found again, and known
            rest = rest[end:].lstrip()
            if not isinstance(answer, dict):
                continue
            number, text = answer.get("id"), answer.get("result")
            if not isinstance(number, int) or number not in self._asked:
                continue
            answers, command = self._asked.pop(number)
            if isinstance(text, str):
                answers.texts[command] = text
        self._received = b""

    def _give_up(self, problem: str) -> None:
        for answers, _ in self._asked.values():
            answers.problem = problem
        self._asked.clear()
        self._received = b""


def _control_socket(pid: int) -> str:
    """Where the process listens for commands: a path in its own mount namespace."""
    own = {link for _, link in links(pid)}
    try:
        lines = Path(f"/proc/{pid}/net/unix").read_text(errors="surrogateescape").splitlines()
    except OSError as error:
        raise UnavailableError(f"its sockets can't be read: {error.strerror}") from None
    for line in lines[1:]:
        words = line.split(None, 7)
        if len(words) < 8 or not words[7].endswith(".ctl") or not int(words[3], 16) & _LISTENS:
            continue
        if f"socket:[{words[6]}]" in own:
            return words[7]
    raise UnavailableError("it has no control socket")


def _connected(path: str, pid: int) -> _socket.socket:
    folder, _, name = path.rpartition("/")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        # A path of a socket has 107 bytes at most.
        directory = os.open(f"/proc/{pid}/root{folder}", os.O_PATH)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{name}")
        finally:
            os.close(directory)
    except OSError as error:
        connection.close()
        raise UnavailableError(f"its control socket can't be used: {error.strerror}") from None
    return connection


def _is_stopped(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "TtZX"
