"""Pages of HTML, each whole in one file: of Samples, comparisons, fleets and monitors.

`contents` and its neighbours make what the page shows, as data; `static/` shows it, in the
browser; `document` pours the one into the other. `vendor/` is what others wrote.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from string import Template

from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.reporters.page.contents import Contents

__all__ = ["Contents", "document_of", "render"]


def render(header: RecordingHeader | None, samples: Iterable[Sample]) -> Iterator[str]:
    """The page, in pieces. Without a header it names what the Samples themselves do."""
    contents = Contents(header)
    for sample in samples:
        contents.add(sample)
    return document_of(contents)


def document_of(contents: Contents) -> Iterator[str]:
    """The page of what the contents have by now, in pieces."""
    return document("page", contents.title, contents.data())


_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:function\*?|class|const) (\w+))", re.MULTILINE)

# Where the script needs it: a page of a flame graph alone draws nothing by time.
_UPLOT = (("uPlot.iife.min.js",), ("uPlot.min.css",))
_VENDORED = {"page": _UPLOT, "events": _UPLOT}


def document(kind: str, title: str, data: Iterator[str]) -> Iterator[str]:
    """The document of `static/KIND.js` and `page.css`, in pieces; `data` is JSON of ASCII."""
    vendored_scripts, vendored_styles = _VENDORED.get(kind, ((), ()))
    scripts = [_vendored(name) for name in vendored_scripts]
    styles = [*map(_vendored, vendored_styles), _static("page.css")]
    main = script(kind)
    policy = {
        "default-src": ["'none'"],
        "script-src": [_hash(text) for text in (*scripts, main)],
        "style-src": [_hash(text) for text in styles],
        "img-src": ["data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
    }
    before, after = (
        Template(_static("document.html"))
        .substitute(
            policy="; ".join(f"{name} {' '.join(allowed)}" for name, allowed in policy.items()),
            title=html.escape(title),
            styles="".join(f"<style>{text}</style>\n" for text in styles),
            scripts="".join(f"<script>{text}</script>\n" for text in scripts),
            main=main,
            data="\0",
        )
        .split("\0")
    )
    yield before
    # In a string of JSON it may stand so; outside of one there is none.
    yield from (piece.replace("<", "\\u003c") for piece in data)
    yield after


@cache
def script(main: str) -> str:
    """The module `main` and all that it imports, as one script, what is imported first.

    Each module is a function that returns what it exports. It imports others of `static/` by
    `import { names } from "./name.js";`, without a circle, and exports what it declares.
    """
    modules: dict[str, str] = {}
    _add_module(main, modules)
    return "\n".join(modules.values())


def _add_module(name: str, modules: dict[str, str]) -> None:
    text = _static(f"{name}.js")
    for match in _IMPORT.finditer(text):
        if match[2] not in modules:
            _add_module(match[2], modules)
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = \2_js;", text))
    modules[name] = f"const {name}_js = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _vendored(name: str) -> str:
    return (files(__package__) / "vendor" / name).read_text(encoding="utf-8")
