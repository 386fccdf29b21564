"""The documentation: in plain words, current, and without a link that leads nowhere."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel_delay import commands
from kernel_delay.cli import parser_of
from kernel_delay.errors import UsageError
from kernel_delay.register import COMMANDS, DEFAULT_COMMAND, OVERVIEW
from setup.reference_pages import pages
from tests.unit.plain_words import MOST_WORDS, faults, paragraphs, word_count

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
]
NAMES = [str(page.relative_to(PROJECT)) for page in PAGES]

GENERATED = pages()

MOST_WORDS_OF_A_PAGE = 1500

# Tables of data: they are looked up, not read.
OF_DATA = {
    "compatibility.md",
    "json.md",
    "kernel-requirements.md",
    "mutants.md",
    "performance.md",
    "recording.md",
    "verifier.md",
}

# A command line, in a block of code.
COMMAND_LINE = re.compile(
    r"^    (?:# )?(?:sudo )?(?:\.venv/bin/|/opt/kernel-delay/bin/)?kernel-delay\b(.*)$",
    re.MULTILINE,
)

# Values that a reader fills in.
VALUES = {"PID": "1", "$PID": "1", "COMMAND": "capture"}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == GENERATED[name](), "`make reference` writes it"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_is_in_plain_words(page: Path) -> None:
    found = [fault for text in paragraphs(page.read_text()) for fault in faults(text)]
    assert found == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_in_plain_words(name: str) -> None:
    parser = parser_of(name, commands.load(name))
    texts = [parser.description or ""]
    for group in parser._action_groups:
        # Of a list each line is by itself.
        texts += (group.description or "").splitlines()
    texts += [str(action.help) for action in parser._actions]
    assert [fault for text in texts for fault in faults(text)] == []


def test_overview_is_in_plain_words() -> None:
    assert [fault for line in OVERVIEW.splitlines() for fault in faults(line)] == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_can_be_read_at_once(page: Path) -> None:
    if page.name not in OF_DATA:
        assert word_count(page.read_text()) <= MOST_WORDS_OF_A_PAGE


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_page_explains_its_word_round(page: Path) -> None:
    texts = [text for text in paragraphs(page.read_text()) if text != "rounds"]  # a table's name
    used = [text for text in texts if re.search(r"\brounds?\b", re.sub(r"`[^`]*`", "", text))]
    explained = any(re.search(r"\*rounds?\*|\bround \(", text) for text in texts)
    assert explained or not used or page.name in OF_DATA


def command_lines() -> Iterator[tuple[str, str]]:
    """Each command line of a page's code, without a comment and what it is piped to."""
    for page, name in zip(PAGES, NAMES, strict=True):
        text = page.read_text().replace("\\\n", " ")
        for found in COMMAND_LINE.finditer(text):
            line = re.split(r"\s#|[|&;]|\s>", found[1])[0].strip()
            # Neither an output's line nor a usage.
            if not line.startswith(":") and not re.search(r"[\[\]…]|0\.1\.0", line):
                yield name, line


@pytest.mark.parametrize(("page", "line"), sorted(set(command_lines())))
def test_command_line_of_a_page_is_accepted(page: str, line: str) -> None:
    words = [VALUES.get(word, word) for word in shlex.split(line)]
    if "--" in words:
        words = words[: words.index("--")]
    if words in (["--version"], ["--help"]):
        return
    name = words.pop(0) if words and words[0] in COMMANDS else None
    parser = parser_of(name, commands.load(name or DEFAULT_COMMAND))
    try:
        parser.parse_args(words)
    except UsageError as error:
        pytest.fail(f"{page}: {error}")


def test_pages_have_command_lines() -> None:
    assert len(set(command_lines())) > 80


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with each link and anchor checked."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_site_has_each_page_and_a_search(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()
    assert "Upcalls are lost" in (site / "search" / "search_index.js").read_text()


@pytest.mark.long
def test_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(https?:[^\" >]*)|<link[^>]*https?:")
    assert [page for page in site.rglob("*.html") if loads.search(page.read_text())] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_beside_the_site_lead_somewhere(name: str) -> None:
    text = (PROJECT / name).read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text)
    assert links
    for path, anchor in links:
        target = PROJECT / (path or name)
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w\- ]", "", each).lower().replace(" ", "-") for each in headings]
            assert anchor in slugs, f"{path}#{anchor}"


def test_long_sentence_is_found() -> None:
    long = " ".join(["word"] * (MOST_WORDS + 1))
    assert list(faults(f"A short one. {long}.")) == [f"{MOST_WORDS + 1} words: {long}."]
    assert list(faults(f"{' '.join(['word'] * MOST_WORDS)}. And another one.")) == []


@pytest.mark.parametrize(
    "text",
    [
        "This is told at the end.",
        "Silent on locks.",
        "All but for one.",
        "It ran for 54 % of that, and slept.",
        "Whose doing it is.",
        "Of several processes each has one.",
    ],
)
def test_word_that_we_do_not_write_is_found(text: str) -> None:
    assert list(faults(text)) != []


def test_code_is_no_sentence() -> None:
    page = "# Told\n\nText.\n\n    told, untold\n\n```\ntell\n```\n\nThe field `untold` counts.\n"
    assert [fault for text in paragraphs(page) for fault in faults(text)] == ["'Told': Told"]
