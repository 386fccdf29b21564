"""Each option of Open vSwitch's scripts, and what is ours for it: docs/upstream.md.

python -m tests.peers.options > docs/upstream.md
"""

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, convert

from kernel_delay import cli, commands

OPTION = re.compile(r"`(-[-\w]+)`")

HEAD = """\
# From Open vSwitch's scripts

Open vSwitch has scripts that attach eBPF programs to `ovs-vswitchd` (`utilities/usdt-scripts`).
What each does is a command here, which needs no compiler, no debug information and none of
Python's packages that these take. `make test-peers` holds the options on this page against those of
the scripts; don't edit it, but `tests/peers/options.toml`.

It holds counts against theirs too, of the userspace datapath on this machine: `kernel_delay.py`'s
of each thread's system calls (but for those that wait: one may have begun before),
`bridge_loop.bt`'s passes and waits, `reval_monitor.py`'s rounds in which nothing changes, and
`flow_reval_monitor.py`'s deletions with their reasons, by UFID. (The latter writes zeros for a part
of each UFID.) Where the module `openvswitch` is loaded, it does so with the kernel's datapath, and
`dpif_op_nl_monitor.py`'s operations, `upcall_monitor.py`'s upcalls with the lengths of their
packets and keys, and `upcall_cost.py`'s events of each kind are among them. All agreed: the first
on the host; the next three and the operations in guests with Linux 6.1, 6.12 and 7.2, and those of
upcalls with 6.12 (`python -m tests.kernels.within "Debian 13" .venv/bin/python -m
tests.peers.run`).
"""


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A script: the command that does what it does, and for each option what does the same."""

    name: str
    command: str
    options: Mapping[str, str]


def read_scripts() -> tuple[Script, ...]:
    """What options.toml says."""
    text = Path(__file__).with_name("options.toml").read_text()
    return convert(tomllib.loads(text)["script"], tuple[Script, ...])


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *(line for script in read_scripts() for line in _section(script))])


def _section(script: Script) -> Iterator[str]:
    command = "" if script.command == commands.DEFAULT_COMMAND else f" {script.command}"
    yield f"## {script.name}\n"
    yield f"`kernel-delay{command}`\n"
    yield f"| {script.name} | ours |"
    yield "|---|---|"
    for theirs, ours in script.options.items():
        yield f"| {', '.join(f'`{name}`' for name in theirs.split(', '))} | {ours} |"
    yield ""


def options_of(command: str) -> set[str]:
    """The names of our command's options."""
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser, commands.load(command))
    return {name for action in parser._actions for name in action.option_strings}


def options_in(source: str) -> set[str]:
    """A script's options, as options.toml writes them: the arguments of each add_argument()."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "add_argument":
            names = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found.add(", ".join(map(str, names)))
    return found


if __name__ == "__main__":
    print(page(), end="")
