"""A command that is run to be measured: there at once, and executed when go() is called."""

import os
import pwd
import shutil
import signal
from collections.abc import Sequence
from typing import NoReturn, Self

from kernel_delay.errors import NotExecutedError, UsageError
from kernel_delay.host.target import LONGEST_COMM, ProcessTarget

# Of what a child of Python does for a program that it has not executed yet.
NOT_EXECUTED = 127


class StartedProgram:
    """A child process that waits until go() and then executes the command.

    Used as a context manager, it ends one without go(), and leaves one that runs.
    """

    def __init__(self, command: Sequence[str], user: str | None = None) -> None:
        """Fork it, to run as `user` if that is given; to be called before any thread is started.

        Raises NotExecutedError where there is no such program, UsageError for no such user.
        """
        self._command = tuple(command)
        self._user = None if user is None else _user(user)
        self._path = _found(command[0])
        orders, self._order = os.pipe2(os.O_CLOEXEC)
        self._failures, failure = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._order)
            self._become(orders, failure)
        os.close(orders)
        os.close(failure)
        self._is_waiting = True

    @property
    def target(self) -> ProcessTarget:
        """What it will be."""
        comm = os.fsencode(os.path.basename(self._command[0]))[:LONGEST_COMM]
        words = (os.fsencode(word).decode(errors="backslashreplace") for word in self._command)
        return ProcessTarget(
            pid=self.pid,
            comm=comm.decode(errors="backslashreplace"),
            exe=os.path.realpath(self._path),
            command_line=tuple(words),
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it still waits."""
        if self._is_waiting:
            os.close(self._order)
            os.waitpid(self.pid, 0)
            self._is_waiting = False
        os.close(self._failures)

    def go(self) -> None:
        """Have it execute the command; at another call there is nothing to do."""
        if self._is_waiting:
            self._is_waiting = False
            os.write(self._order, b"\n")
            os.close(self._order)

    def end_by(self, number: int) -> None:
        """Pass on a signal that came for this process, unless a terminal sends it to both."""
        if number == signal.SIGHUP:
            # Which a daemon takes for an order to read its configuration again.
            number = signal.SIGTERM
        if self._user is not None or number != signal.SIGINT or not _is_in_foreground():
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for its end; return its exit status, 128 + N for an end by signal N.

        Raises NotExecutedError where it could not be executed.
        """
        _, ended = os.waitpid(self.pid, 0)
        status = os.waitstatus_to_exitcode(ended)
        if failure := os.read(self._failures, 16):
            number = int(failure)
            raise NotExecutedError(self._command[0], OSError(number, os.strerror(number)))
        return status if status >= 0 else 128 - status

    def _become(self, orders: int, failure: int) -> NoReturn:
        """Be the child: whatever happens, nothing of the parent's goes on here."""
        try:
            if os.read(orders, 1):
                self._execute()
        except OSError as error:
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(NOT_EXECUTED)

    def _execute(self) -> None:
        # Python ignores them, and an ignored signal stays so.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        environment = dict(os.environ)
        if self._user is not None:
            # As su(1) does with a command: who shares root's terminal can type there (TIOCSTI,
            # ioctl_tty(2)).
            os.setsid()
            name, home = self._user.pw_name, self._user.pw_dir
            os.initgroups(name, self._user.pw_gid)
            os.setgid(self._user.pw_gid)
            os.setuid(self._user.pw_uid)
            environment |= {"USER": name, "LOGNAME": name, "HOME": home}
        os.execve(self._path, self._command, environment)


def _is_in_foreground() -> bool:
    """Whether Ctrl-C on this process's terminal reaches it, and so what it has forked."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _user(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise UsageError(f"--user: there is no user {name!r}") from None


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is not None:
        return path
    if "/" in name and os.path.exists(name):
        raise NotExecutedError(name, PermissionError(13, os.strerror(13)))
    raise NotExecutedError(name, FileNotFoundError(2, os.strerror(2)))
