"""python -m tests.assistants.client FOLDER tools | call TOOL [ARGUMENTS]: ask the server.

For an assistant that has only a shell. ARGUMENTS is a JSON object. The answer is printed, and is
appended to a transcript. A recording's path may be relative to FOLDER.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters
from mcp_types import TextContent

from tests.assistants import transcripts
from tests.commands import KERNEL_DELAY


def _server(folder: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=KERNEL_DELAY[0], args=[*KERNEL_DELAY[1:], "mcp", "."], cwd=folder
    )


async def list_tools(folder: Path) -> str:
    """Return what a client shows to its assistant: the server's instructions, and its tools."""
    async with Client(_server(folder)) as client:
        parts = [client.instructions or ""]
        for tool in (await client.list_tools()).tools:
            parts.append(f"{tool.name}: {tool.description}\n{json.dumps(tool.input_schema)}")
        return "\n\n".join(parts)


async def call(folder: Path, tool: str, arguments: dict[str, object]) -> tuple[str, bool]:
    """Call a tool; return its text, and whether that is an error."""
    async with Client(_server(folder)) as client:
        result = await client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        return text, bool(result.is_error)


def main(words: list[str] | None = None) -> int:
    """Ask, print and note the answer; 1: the tool answered with an error."""
    parser = argparse.ArgumentParser(prog="tests.assistants.client", description=__doc__)
    parser.add_argument("--transcript", type=Path, metavar="FILE")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tools", help="list the tools")
    calling = commands.add_parser("call", help="call a tool")
    calling.add_argument("tool", metavar="TOOL")
    calling.add_argument("arguments", nargs="?", default={}, type=json.loads, metavar="ARGUMENTS")
    args = parser.parse_args(words)
    is_error = False
    if args.command == "tools":
        text, asked = asyncio.run(list_tools(args.folder)), "tools"
    else:
        text, is_error = asyncio.run(call(args.folder, args.tool, args.arguments))
        asked = f"{args.tool} {json.dumps(args.arguments)}"
    print(text)
    path = args.transcript or transcripts.default_path(args.folder, "client")
    transcripts.append(path, asked, text)
    return int(is_error)


if __name__ == "__main__":
    sys.exit(main())
