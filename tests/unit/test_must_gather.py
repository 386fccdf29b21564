"""The script for `oc adm must-gather`: what it asks of oc, in whose place a script answers."""

import os
import re
import subprocess
from pathlib import Path

from kernel_delay import commands
from kernel_delay.cli import parser_of

# Keeps the words of each call, and answers as a cluster of three nodes, one of which refuses.
OC = """#!/bin/sh
printf '%s\\n' "$*" >>"$KEPT/calls"
case "$*" in
*metadata.name*) printf 'worker-1 worker-2 worker-3' ;;
*node/worker-2*) echo 'no such image' >&2; exit 125 ;;
*) echo "${*##*kernel-delay:1 }" ;;
esac
"""

IMAGE = "registry.example/kernel-delay:1"


def gathered(project: Path, folder: Path, **environment: str) -> tuple[Path, list[str]]:
    """What it wrote, and the calls."""
    oc = folder / "oc"
    oc.write_text(OC)
    oc.chmod(0o755)
    into = folder / "kernel-delay"
    own = {"KEPT": str(folder), "KERNEL_DELAY_INTO": str(into), "KERNEL_DELAY_IMAGE": IMAGE}
    path = f"{folder}:{os.environ['PATH']}"
    script = project / "deploy" / "kubernetes" / "must-gather" / "gather"
    # As must-gather runs it: its text, with no file of its own.
    command = ["bash", "-c", script.read_text()]
    subprocess.run(command, env={"PATH": path} | own | environment, check=True)
    return into, (folder / "calls").read_text().splitlines()


def test_each_node_has_its_files(project: Path, tmp_path: Path) -> None:
    into, calls = gathered(project, tmp_path, KERNEL_DELAY_AT_ONCE="1")
    assert {path.name for path in into.iterdir()} == {"worker-1", "worker-2", "worker-3"}
    files = {"check.txt", "samples.jsonl", "log.txt"}
    assert {path.name for path in (into / "worker-1").iterdir()} == files
    # Nothing is lost silently.
    assert (into / "worker-2" / "samples.errors").read_text() == "no such image\n"
    assert len(calls) == 1 + 3 * 3


def test_kernel_delay_takes_its_arguments(project: Path, tmp_path: Path) -> None:
    into, _ = gathered(project, tmp_path)
    for path in (into / "worker-1").glob("*.*"):
        words = path.read_text().split()
        name, rest = (None, words) if words[0].startswith("-") else (words[0], words[1:])
        parser_of(name, commands.load(name or "capture")).parse_args(rest)


def test_its_rights_are_those_of_the_manifests(project: Path, tmp_path: Path) -> None:
    _, calls = gathered(project, tmp_path)
    job = (project / "deploy" / "kubernetes" / "kubectl" / "job.yaml").read_text()
    (added,) = re.findall(r"add: \[(.*)\]", job)
    for call in calls[1:]:
        assert set(re.findall(r"--cap-add (\w+)", call)) == set(added.split(", "))


def test_nodes_can_be_selected(project: Path, tmp_path: Path) -> None:
    _, calls = gathered(project, tmp_path, KERNEL_DELAY_NODES="node-role.kubernetes.io/worker=")
    assert "--selector node-role.kubernetes.io/worker= " in calls[0]
