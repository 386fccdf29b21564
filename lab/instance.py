"""A private, real Open vSwitch that disturbs nothing and leaves nothing behind."""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self

from kernel_delay.errors import PermissionDeniedError, TimeoutExpiredError, UnavailableError
from lab.binaries import Binaries
from lab.child import Child, one_line

Datapath = Literal["netdev", "system"]

# Nothing on the console and, so that nothing is left behind, nothing in the machine's syslog.
_QUIET = ("-vconsole:off", "-vsyslog:off")
_POLL_S = 0.01
_LOCAL_PORT = "65534"  # OFPP_LOCAL, as ovs-vswitchd numbers a bridge's own port
# Of the log's lines: time|number|module|level|message.
_WARNING = re.compile(r"\|(WARN|ERR|EMER)\|")


class OvsCommandError(UnavailableError):
    """One of Open vSwitch's commands failed or was not answered."""


class Instance:
    """ovsdb-server and ovs-vswitchd with their own database, sockets and network.

    A context manager: on entry they run and answer; on exit, also after an
    exception or Ctrl-C, both are gone with their folder. Both are children
    of this process and die with it (see Child).

    ovs-vswitchd runs in a network namespace of its own, so its taps and
    bridges are not the machine's. With the `system` datapath (the kernel's
    openvswitch module must be loaded) that also keeps it away from the
    datapaths of another ovs-vswitchd, which it would otherwise delete as not
    in its database (ofproto-dpif.c, open_dpif_backer()).

    `options` are further arguments for ovs-vswitchd, such as --enable-dummy, and `environment`
    has further variables for it;
    `timeout_s` bounds each wait for an answer. `folder` exists while it runs:
    ovs-vswitchd.log and ovsdb-server.log are in there.
    """

    folder: Path

    def __init__(
        self,
        binaries: Binaries,
        *,
        datapath: Datapath = "netdev",
        options: Sequence[str] = (),
        timeout_s: float = 120.0,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Takes note; __enter__ starts it."""
        self.datapath = datapath
        self._binaries = binaries
        self._options = tuple(options)
        self._timeout_s = timeout_s
        self._own_environment = environment
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Starts both and waits until ovs-vswitchd has taken in its database.

        Raises PermissionDeniedError (not root), ChildFailedError (a daemon
        ended at once), OvsCommandError, or TimeoutExpiredError.
        """
        if os.geteuid() != 0:
            raise PermissionDeniedError("a private Open vSwitch needs root: run it with sudo")
        with contextlib.ExitStack() as stack:
            # Not below the current folder: that may be on 9p, which has no Unix sockets.
            folder = tempfile.TemporaryDirectory(prefix="kernel-delay-ovs-")
            self.folder = Path(stack.enter_context(folder))
            self._start_database(stack)
            self._switch = self._start_switch(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops ovs-vswitchd and ovsdb-server and removes their folder."""
        self._stack.close()

    @property
    def pid(self) -> int:
        """The process id of ovs-vswitchd."""
        return self._switch.pid

    def running(self) -> bool:
        """Whether ovs-vswitchd is still there."""
        return self._switch.running()

    def vsctl(self, *args: str) -> str:
        """Runs ovs-vsctl, waits until ovs-vswitchd has done it too, and returns its output."""
        timeout = f"--timeout={self._timeout_s:.0f}"
        return self._command(
            self._binaries.ovs_vsctl, f"--db=unix:{self._database_socket}", timeout, *args
        )

    def appctl(self, *args: str) -> str:
        """Sends ovs-vswitchd a command with ovs-appctl and returns its answer."""
        return self._command(self._binaries.ovs_appctl, "-t", "ovs-vswitchd", *args)

    def ofctl(self, *args: str) -> str:
        """Runs ovs-ofctl and returns its output."""
        return self._command(self._binaries.ovs_ofctl, *args)

    def add_bridge(self, name: str) -> None:
        """Adds a bridge on this instance's datapath.

        Raises OvsCommandError, with ovs-vswitchd's warnings, when it can't be made.
        """
        self.vsctl("add-br", name, "--", "set", "Bridge", name, f"datapath_type={self.datapath}")
        # ovs-vsctl succeeds once it is in the database; only a port number says that it is real.
        if self.vsctl("get", "Interface", name, "ofport").strip() != _LOCAL_PORT:
            raise OvsCommandError(f"no bridge {name}: {one_line(self._warnings())}")

    def in_network(self, argv: Sequence[str], stdin: str = "") -> None:
        """Runs a command to its end in ovs-vswitchd's network namespace."""
        self._switch.in_network(argv, stdin)

    @property
    def _database_socket(self) -> Path:
        return self.folder / "db.sock"

    @property
    def _environment(self) -> dict[str, str]:
        folders = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        return os.environ | dict.fromkeys(folders, str(self.folder))

    def _warnings(self) -> str:
        log = self.folder / "ovs-vswitchd.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join(line.split("|", 2)[2] for line in lines if _WARNING.search(line))

    def _start_database(self, stack: contextlib.ExitStack) -> None:
        database = self.folder / "conf.db"
        self._command(
            self._binaries.ovsdb_tool, "create", str(database), str(self._binaries.schema)
        )
        remote = f"--remote=punix:{self._database_socket}"
        server = self._start(stack, self._binaries.ovsdb_server, remote, str(database))
        self._wait_until_answered(server, "ovsdb-server")
        self.vsctl("--no-wait", "init")

    def _start_switch(self, stack: contextlib.ExitStack) -> Child:
        database = f"unix:{self._database_socket}"
        switch = self._start(
            stack,
            self._binaries.ovs_vswitchd,
            *self._options,
            database,
            environment=self._own_environment,
        )
        self._wait_until_answered(switch, "ovs-vswitchd")
        self.vsctl("set", "Open_vSwitch", ".", "external_ids:system-id=kernel-delay")
        return switch

    def _start(
        self,
        stack: contextlib.ExitStack,
        program: Path,
        *args: str,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        common = ("--pidfile", "--log-file", *_QUIET)
        daemon = Child(
            [program, *common, *args], own_network=True, env={**self._environment, **environment}
        )
        stack.callback(daemon.stop)
        return daemon

    def _wait_until_answered(self, daemon: Child, name: str) -> None:
        deadline = time.monotonic() + self._timeout_s
        while True:
            daemon.check()
            # Before its socket exists, asking would only cost time.
            if (self.folder / f"{name}.{daemon.pid}.ctl").exists():
                with contextlib.suppress(OvsCommandError):
                    self._command(self._binaries.ovs_appctl, "-t", name, "version")
                    return
            if time.monotonic() > deadline:
                raise TimeoutExpiredError(f"{name} did not answer within {self._timeout_s:g} s")
            time.sleep(_POLL_S)

    def _command(self, program: Path, *args: str) -> str:
        try:
            done = subprocess.run(
                [program, *args],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=self._timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            waited = f"{program.name} {' '.join(args)}: no answer within {self._timeout_s:g} s"
            said = one_line(self._warnings()) or "nothing"
            raise TimeoutExpiredError(f"{waited}; ovs-vswitchd says {said}") from error
        except OSError as error:
            raise OvsCommandError(f"can't run {program}: {error.strerror}") from error
        if done.returncode:
            raise OvsCommandError(f"{program.name} {' '.join(args)}: {one_line(done.stderr)}")
        return done.stdout
