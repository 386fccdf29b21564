"""What a sos report has of kernel-delay: made by Debian's sos, with the plugin of deploy/sos."""

import shutil
import subprocess
from pathlib import Path

import pytest

# In a mount namespace of its own: sos has a PATH of its own, and the machine keeps its files.
SCRIPT = r"""
set -eu
mount --bind "$1" /usr/local/sbin
mkdir -p /var/lib/kernel-delay /var/log/openvswitch
mount --bind "$2" /var/lib/kernel-delay
mount --bind "$3" /var/log/openvswitch
mount --bind "$4" /usr/lib/python3/dist-packages/sos/report/plugins
exec /usr/bin/sosreport --batch --build --only-plugins kernel_delay --tmp-dir "$5" \
    --plugin-option kernel_delay.measure=sleep
"""
LOG = (
    "2026-11-24T01:02:03.004Z|00012|timeval(handler7)|WARN|"
    "Unreasonably long 1234ms poll interval (0ms user, 1200ms system)\n"
)


@pytest.fixture(scope="module")
def report(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands' outputs, with that of the report above."""
    names = ("bin", "recordings", "logs", "plugins", "report")
    folders = [tmp_path_factory.mktemp(name) for name in names]
    command, recordings, logs, plugins, made = folders
    script = command / "kernel-delay"
    script.write_text(f'#!/bin/sh\nexec {project}/.venv/bin/kernel-delay "$@"\n')
    script.chmod(0o755)
    (recordings / "round.kdr").write_bytes(b"recorded")
    (logs / "ovs-vswitchd.log").write_text(LOG)
    own = Path("/usr/lib/python3/dist-packages/sos/report/plugins")
    shutil.copytree(own, plugins, dirs_exist_ok=True)
    shutil.copy(project / "deploy" / "sos" / "kernel_delay.py", plugins)
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", SCRIPT, "sh", *map(str, folders)],
            capture_output=True,
            text=True,
        )
    finally:
        sleeper.kill()
        sleeper.wait()
    assert done.returncode == 0, done.stdout + done.stderr
    (outputs,) = made.glob("*/sos_commands/kernel_delay")
    return outputs


def test_machine_is_checked(report: Path) -> None:
    assert "This user and machine" in (report / "kernel-delay_check").read_text()


def test_long_poll_intervals_of_logs_are_classified(report: Path) -> None:
    text = (report / "kernel-delay_log_.var.log.openvswitch").read_text()
    assert "handler" in text
    assert not (report / "kernel-delay_log_.var.log.ovn").exists()


def test_recordings_are_copied(report: Path) -> None:
    copied = report.parents[1] / "var" / "lib" / "kernel-delay" / "round.kdr"
    assert copied.read_bytes() == b"recorded"


def test_named_process_is_measured_if_asked_for(report: Path) -> None:
    (output,) = report.glob("kernel-delay_--comm_sleep_*")
    assert "sleep" in output.read_text()
