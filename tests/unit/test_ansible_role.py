"""The Ansible role: its options are those that `watch` reads; the rest is read by Ansible."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_delay import commands
from kernel_delay.cli import environment_options, parser_of

PLAYBOOK = "deploy/ansible/watch.yml"
OPTIONS = {"threshold": 0.5, "no-stacks": True, "timeline": False, "max_size": 64}


def play(project: Path, home: Path, *arguments: str, path: Path = Path("/")) -> str:
    """Run the playbook on this machine, where `path` has the commands; return the output."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "ANSIBLE_LOCAL_TEMP": str(home),
        "ANSIBLE_REMOTE_TEMP": str(home),
        "ANSIBLE_NOCOWS": "1",
        "LC_ALL": "C.UTF-8",
        "PATH": f"{path}:{os.environ['PATH']}",
    }
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "--connection", "local"]
    done = subprocess.run(
        [*command, "--inventory", "localhost,", PLAYBOOK, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_ansible_reads_the_playbook(project: Path, tmp_path: Path) -> None:
    listed = play(project, tmp_path, "--list-tasks")
    for task in ("Install the deb", "Install the rpm", "Write the options", "Start what watches"):
        assert f"kernel_delay : {task}" in listed


SYSTEMCTL = """#!/bin/sh
echo "$*" >>"$0.calls"
case "$*" in
*show*) printf 'LoadState=loaded\\nActiveState=active\\nUnitFileState=disabled\\n' ;;
esac
"""


@pytest.mark.long
def test_options_of_the_role_are_options_of_watch(project: Path, tmp_path: Path) -> None:
    etc, commands_path = tmp_path / "etc", tmp_path / "bin"
    (etc / "default").mkdir(parents=True)
    commands_path.mkdir()
    systemctl = commands_path / "systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    variables = {
        "kernel_delay_etc": str(etc),
        "kernel_delay_options": OPTIONS,
        "kernel_delay_watch": ["ovs-vswitchd", "redis-server"],
        "kernel_delay_package": "kernel-delay.deb",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    arguments = ("--tags", "options", "--extra-vars", json.dumps(variables))
    play(project, tmp_path, *arguments, path=commands_path)
    written = [etc / "default/kernel-delay-watch", etc / "kernel-delay/watch-redis-server.conf"]
    for path in written:
        environment = dict(line.split("=", 1) for line in path.read_text().splitlines())
        parser = parser_of("watch", commands.load("watch"))
        given = parser.parse_args([*environment_options(parser, [], environment)])
        assert (given.threshold_ns, given.stacks, given.timeline) == (500_000_000, False, False)
        assert given.max_mib == 64
        assert len(environment) == len(OPTIONS)
    calls = Path(f"{systemctl}.calls").read_text()
    for unit in ("kernel-delay-watch", "kernel-delay-watch@redis-server"):
        assert f"restart {unit}\n" in calls
    # What is there already is left alone.
    again = play(project, tmp_path, *arguments, path=commands_path)
    assert "changed=0" in again
