"""Each option of Open vSwitch's scripts, and what is ours for it: docs/reference/upstream.md.

python -m tests.peers.options > docs/reference/upstream.md
"""

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct, convert

from kernel_delay import cli, commands
from kernel_delay.register import DEFAULT_COMMAND

OPTION = re.compile(r"`(-[-\w]+)`")

HEAD = """\
# Options of Open vSwitch's scripts

Open vSwitch has scripts that attach eBPF programs to `ovs-vswitchd` (`utilities/usdt-scripts`).
Each has a command here that does the same without a compiler, debug information or further
packages. Do not edit this page: `tests/peers/options.toml` has its rows, and `make test-peers`
compares them with the scripts.

`make test-peers` also compares counts on the same traffic:

| script | compared |
|---|---|
| `kernel_delay.py` | system calls of each thread, except calls that wait |
| `bridge_loop.bt` | passes and waits |
| `reval_monitor.py` | rounds without changes (a *round* is one check of all flows) |
| `flow_reval_monitor.py` | deletions with their reasons, by UFID (in part zeros) |
| `dpif_op_nl_monitor.py` | operations of the kernel's datapath |
| `upcall_monitor.py` | upcalls with the lengths of packets and keys |
| `upcall_cost.py` | events of each kind |

All agreed: the first on the host, the next four in guests with Linux 6.1, 6.12 and 7.2, the last
two with 6.12 (`python -m tests.kernels.within "Debian 13" .venv/bin/python -m tests.peers.run`).
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
    command = "" if script.command == DEFAULT_COMMAND else f" {script.command}"
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
