"""The text of `kernel-delay probes`: columns to cut, and nothing of another's making raw."""

import re

import pytest

from kernel_delay.probes import listing
from kernel_delay.probes.arguments import Argument, Register, Unknown
from kernel_delay.probes.listing import ListedArgument, ListedFunction, ListedUsdt, ProbeList
from kernel_delay.reporters import json

EVIL = "\x1b[2J\nu:forged:line"


def usdt(name: str, argument: str = "r1") -> ListedUsdt:
    decoded = Argument(8, "signed", Register(argument))
    return ListedUsdt(
        trigger=f"u:p:{name}",
        provider="p",
        name=name,
        object="/usr/sbin/x",
        address=0x1234,
        file_offset=0x234,
        semaphore_address=None,
        arguments=(ListedArgument(str(decoded), decoded),),
    )


def test_columns_start_where_their_headings_do() -> None:
    found = ProbeList(usdt=(usdt("a"), usdt("much_longer")))
    heading, *rows = listing.render(found).splitlines()
    for row, name in zip(rows, ("a", "much_longer"), strict=True):
        assert row.startswith(f"u:p:{name} ")
        for title, cell in (("ADDRESS", "0x1234 "), ("SEMAPHORE", "- "), ("ARGUMENTS", "8 s")):
            assert row.startswith(cell, heading.index(title))


def test_lists_are_parted_and_remarks_last() -> None:
    function = ListedFunction("up:0x10", "f", "/usr/sbin/x", 0x10)
    text = listing.render(
        ProbeList(
            functions=(function,),
            kernel=("k:vfs_read",),
            tracepoints=(),
            remarks=("something is missing",),
        )
    )
    assert [re.split(r"  +", part.splitlines()[0])[0] for part in text.split("\n\n")] == [
        "FUNCTION",
        "KERNEL FUNCTION",
        "TRACEPOINT",
    ]
    assert text.endswith("TRACEPOINT\n(none)\n# something is missing\n")


@pytest.mark.parametrize("field", ["name", "provider", "object", "argument", "remark", "function"])
def test_untrusted_text_is_escaped(field: str) -> None:
    unknown = Argument(None, None, Unknown(EVIL if field == "argument" else "x"))
    listed = ListedUsdt(
        trigger=f"u:{EVIL if field == 'provider' else 'p'}:{EVIL if field == 'name' else 'n'}",
        provider=EVIL if field == "provider" else "p",
        name=EVIL if field == "name" else "n",
        object=EVIL if field == "object" else "o",
        address=0,
        file_offset=0,
        semaphore_address=0x10,
        arguments=(ListedArgument(str(unknown), unknown),),
    )
    function = ListedFunction("up:0x10", EVIL if field == "function" else "f", "o", 0x10)
    remarks = (EVIL,) if field == "remark" else ()
    found = ProbeList(usdt=(listed,), functions=(function,), remarks=remarks)
    text, line = listing.render(found), json.render(found)
    assert "\x1b" not in text + line
    assert "\nu:forged" not in text
    assert text.count("\\x1b") == 1
    assert "\\u001b" in line
