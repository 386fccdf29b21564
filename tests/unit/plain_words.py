"""Sentences that a reader can understand at once: how long they are, and which words they use.

The rules are those of the style guide in CONTRIBUTING.md. `faults()` takes any text of ours:
pages, help, and whatever else is to keep to them.
"""

import re
from collections.abc import Iterator

MOST_WORDS = 30

# Each with what to write. Names of code in backticks are left alone.
BANNED = {
    r"told|tells?|telling|untold": "reported, printed, known; suppressed",
    r"it is looked|is kept from|(has|have|had) it go on": "checks, waits for, resumes",
    r"meant by|of which|of that(?! [a-z])|of these all": "selects; all options must match",
    r"doings?|doing it is": "activity",
    r"more to come|to come": "continuation",
    r"farewell": "shutdown",
    r"stand-?ins?|lanes?|surroundings": "the real name of the thing",
    r"silent on": "Limits: does not detect",
    r"but for": "except",
}
_BANNED = re.compile(rf"\b({'|'.join(BANNED)})(?!\w)", re.IGNORECASE)

# A sentence that begins with its object.
_INVERTED = re.compile(r"(?:Of|Whose|Whom) ")

_END = re.compile(r"(?<=[.!?])[\")*]*\s+")
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_STARTS = re.compile(r"\s*([-*] |\d+\. |#|\||>)")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def faults(text: str) -> Iterator[str]:
    """Yield what is wrong with each sentence of a paragraph, with the sentence."""
    for sentence in sentences(text):
        words = sum(1 for word in sentence.split() if re.search(r"\w", word))
        is_list = re.fullmatch(r"(CODE[,. ]*)+", sentence)
        if words > MOST_WORDS and not is_list:
            yield f"{words} words: {sentence}"
        if found := _BANNED.search(sentence):
            yield f"{found[0]!r}: {sentence}"
        if _INVERTED.match(sentence):
            yield f"begins with its object: {sentence}"


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph, with a word in place of each piece of code."""
    bare = _LINK.sub(r"\1", _CODE.sub("CODE", text))
    yield from filter(None, (each.strip() for each in _END.split(" ".join(bare.split()))))


def paragraphs(markdown: str) -> Iterator[str]:
    """Yield the paragraphs, headings, list items and cells of a page, without its code."""
    without_blocks = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    paragraph: list[str] = []
    for line in [*without_blocks.splitlines(), ""]:
        # Indented text behind an empty line is code, and so is what follows it.
        is_code = line.startswith("    ") and not paragraph
        if (is_code or not line.strip() or _STARTS.match(line)) and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if is_code or not line.strip():
            continue
        if line.startswith("|"):
            yield from (cell for cell in re.split(r"(?<!\\)\|", line) if re.search(r"\w", cell))
            continue
        paragraph.append(re.sub(r"^\s*([-*] |\d+\. |#+ )", "", line))


def word_count(markdown: str) -> int:
    """How many words a page has outside of blocks of code."""
    return sum(len(each.split()) for each in paragraphs(markdown))
