"""Pages of HTML, each whole in one file: of Samples, comparisons, fleets and monitors.

`contents` and its neighbours make what the page shows, as data; `static/` shows it, in the
browser; `document` pours the one into the other. `vendor/` is what others wrote.
"""

from collections.abc import Iterable, Iterator

from kernel_delay.model import RecordingHeader, Sample
from kernel_delay.reporters.page.contents import Contents
from kernel_delay.reporters.page.document import document

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
