"""`kernel-delay mcp`: a real client of the protocol, on a server of its own."""

import asyncio
import os
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult, TextContent

from kernel_delay.analysis.verdict.packet_losses import LOSS_RULES
from kernel_delay.commands import mcp_server as reading
from kernel_delay.errors import NoInputError
from tests.commands import KERNEL_DELAY
from tests.recordings import record_samples
from tests.unit.samples import ACCOUNTED, EVERYTHING
from tests.unit.verdict_samples import RULE_NAMES
from tests.workload import HANGS_S


def test_each_rule_is_explained() -> None:
    explained = {name: reading.describe_rule(name) for name in RULE_NAMES}
    assert len(set(explained.values())) == len(RULE_NAMES) - len(LOSS_RULES) + 1
    names = reading.describe_rule("")
    assert names.startswith("The rules are: ")
    assert [name for name in RULE_NAMES if name not in names] == []
    assert names not in explained.values()


def kernel_delay(*arguments: str) -> str:
    return subprocess.check_output([*KERNEL_DELAY, *arguments], text=True, timeout=HANGS_S)


Ask = Callable[..., Coroutine[Any, Any, CallToolResult]]


def text(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, TextContent))


def ask_server(folder: Path, questions: Callable[[Ask], Coroutine[Any, Any, None]]) -> None:
    """Start the command, and ask it."""
    server = StdioServerParameters(
        command=KERNEL_DELAY[0], args=[*KERNEL_DELAY[1:], "mcp", str(folder)]
    )

    async def talk() -> None:
        async with Client(server) as client:

            async def ask(tool: str, **arguments: object) -> CallToolResult:
                return await client.call_tool(tool, arguments)

            listed = await client.list_tools()
            for tool in listed.tools:
                assert tool.annotations is not None
                assert tool.annotations.read_only_hint, tool.name
            await questions(ask)

    asyncio.run(talk())


@pytest.fixture
def served(tmp_path: Path) -> Path:
    folder = tmp_path / "served"
    folder.mkdir()
    return folder


def test_assistant_reads_what_the_command_prints(served: Path) -> None:
    before = record_samples(served / "before.kdr", ACCOUNTED)
    after = record_samples(served / "after.kdr", EVERYTHING)
    (served / "broken.kdr").write_bytes(b"no recording")
    printed = kernel_delay("report", "--summary", str(before))
    assert "VERDICT" in printed

    async def questions(ask: Ask) -> None:
        listed = text(await ask("recordings"))
        assert "after.kdr" in listed
        assert "ovs-vswitchd (27090)" in listed
        assert "not a recording" in listed
        assert text(await ask("report", recording=str(before))) == printed
        whole = text(await ask("report", recording=str(before), summary=False))
        assert whole == kernel_delay("report", str(before))
        changed = text(await ask("compare", before=str(before), after=str(after)))
        assert changed == kernel_delay("compare", str(before), str(after))
        assert "Limits: " in text(await ask("rule", name="wait_futex"))

    ask_server(served, questions)


def test_nothing_outside_the_folder_is_read(served: Path, tmp_path: Path) -> None:
    outside = record_samples(tmp_path / "secret.kdr", ACCOUNTED)
    (served / "link.kdr").symlink_to(outside)
    (served / "up").symlink_to(tmp_path)

    async def questions(ask: Ask) -> None:
        assert "secret" not in text(await ask("recordings"))
        for name in (outside, served / "link.kdr", served / "up/secret.kdr", "/etc/passwd", "-"):
            result = await ask("report", recording=str(name))
            assert result.is_error
            assert "is not below a folder that is served" in text(result)

    ask_server(served, questions)


def test_only_files_and_folders_are_opened(served: Path) -> None:
    os.mkfifo(served / "fifo.kdr")
    shelf = reading.Shelf([served])
    assert shelf.recordings() == []
    with pytest.raises(NoInputError, match=r"fifo\.kdr' is neither a file nor a folder"):
        shelf.report(str(served / "fifo.kdr"), True, 1)
    with pytest.raises(NoInputError, match=r"is no path"):
        shelf.report(f"{served}/a\0.kdr", True, 1)


def test_a_long_report_comes_in_pages(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record_samples(served / "one.kdr", ACCOUNTED)
    whole = kernel_delay("report", str(path))
    monkeypatch.setattr(reading, "PAGE_CHARACTERS", 1 + len(whole) // 3)
    shelf = reading.Shelf([served])
    pages = [shelf.report(str(path), False, page) for page in (1, 2, 3)]
    assert "".join(page.rpartition("\n[page ")[0] for page in pages) == whole
    with pytest.raises(NoInputError, match="there is no page 4: the report has 3"):
        shelf.report(str(path), False, 4)


FAILING = """
import sys
from kernel_delay import cli
from kernel_delay.commands import mcp_server
async def listen():
    pass
def serve(folders):
    pending = listen()
    raise ExceptionGroup("tasks", [ExceptionGroup("task", [{error}])])
mcp_server.serve = serve
sys.exit(cli.main(["mcp", "."]))
"""


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        ('RuntimeError("can\'t start new thread")', "too few threads", os.EX_UNAVAILABLE),
        ('OSError(12, "Cannot allocate memory")', "too little memory", os.EX_UNAVAILABLE),
        ('OSError(28, "No space left")', "standard input or output: No space", os.EX_IOERR),
    ],
)
def test_error_of_the_servers_tasks_is_one_line(
    served: Path, error: str, said: str, code: int
) -> None:
    command = [KERNEL_DELAY[0], "-c", FAILING.format(error=error)]
    done = subprocess.run(command, cwd=served, capture_output=True, text=True)
    assert done.returncode == code
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kernel-delay: {said}")


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="none' is not a folder"):
        reading.Shelf([tmp_path / "none"])
