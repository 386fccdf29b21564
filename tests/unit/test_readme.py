"""What README says of the commands that it lists."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from kernel_delay.analysis.verdict import judge
from kernel_delay.model import FilePeer, Sleep, SleepFile, Target, Waker
from kernel_delay.reporters.layout import Layout
from kernel_delay.reporters.text import render_summary
from tests.unit.samples import TIMED_WINDOW_NS, bare_sample, timed_thread, window


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ("kernel-delay revalidator", "USDT probes or symbols"),
        ("kernel-delay flows", "USDT probes"),
        ("up:bridge_run", "symbols"),
    ],
)
def test_listed_command_says_what_it_needs(project: Path, words: str, needed: str) -> None:
    (line,) = [line for line in (project / "README.md").read_text().splitlines() if words in line]
    assert line.endswith(f"needs {needed}")


def test_install_commands_are_those_of_the_site(project: Path) -> None:
    pages = (project / "README.md", project / "docs" / "reference" / "requirements.md")
    blocks = [
        re.search(r"\n((?:    .*\n)+)", page.read_text().partition("\n## Install\n")[2])
        for page in pages
    ]
    readme, site = (block and block[1] for block in blocks)
    assert readme == site is not None


def test_example_has_the_sentences_of_this_version(project: Path) -> None:
    """They are those of a thread with the wait of the example's."""
    pipe = SleepFile(4, 1, "pipe", "pipe:[1]", peers=(FilePeer(29090, "ship-logs"),))
    waker = Waker("thread", 29090, 29090, "ship-logs", 9, 409_000_000)
    slept = Sleep("pipe", "write", (), False, 9, 470_200_000, 146_100_000, (waker,), file=pipe)
    sample = bare_sample(
        replace(timed_thread(29092, "nginx", ready=16), sleeps=(slept,)),
        target=Target(29092, "nginx", "/usr/sbin/nginx", command_line=("nginx: worker process",)),
        window=window(duration_ns=TIMED_WINDOW_NS),
    )
    said = render_summary(judge(sample), Layout(width=80)).splitlines()
    _, _, text = (project / "README.md").read_text().partition("--summary\n")
    shown = [line.removeprefix("    ") for line in text.splitlines() if line.startswith("    ")]
    shown = shown[: shown.index("# Bars: R ready, B blocked.")]
    assert all(len(line) <= 80 for line in shown)
    verdict = [each.startswith("# VERDICT") for each in shown].index(True)
    # The row and its bar are the last.
    assert {*shown[verdict:-1]} <= {*said}
