"""The time in single system calls as a flame graph by itself: of HTML, or a picture in SVG.

The picture has neither scripts nor anything to load; what a frame is stands in its title, which
a browser shows under the pointer. Polls are left out unless they are asked for: an event loop
spends nearly all of its time in one.
"""

from collections.abc import Iterator
from html import escape

from msgspec import Struct

from kernel_delay.formatting import printable
from kernel_delay.model import Sample
from kernel_delay.reporters.json import ascii_json
from kernel_delay.reporters.page import document
from kernel_delay.reporters.page.calls import Calls, PageCalls

WIDTH = 1200
ROW = 18
HEAD = 44
CHARACTER = 6.7
LEAST = 0.3
"""Of a pixel. What is narrower is left out, and with it what is below."""

STYLE = """
text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#111418}
.title{font:16px system-ui,sans-serif}.about{font-family:system-ui,sans-serif;fill:#5c6570}
.all{fill:#eceef1}.thread{fill:#cfd5dd}.user{fill:#a9cdea}.call{fill:#f6b48d}
g:hover rect{stroke:#1b1f24}
"""


class FlamePage(Struct, frozen=True):
    """What the page of a flame graph alone shows."""

    title: str
    calls: PageCalls | None


class FlameGraph:
    """The calls of Samples, as these come, and what they look like."""

    def __init__(self, *, polls: bool = False) -> None:
        """Begin with none; the picture has `polls` too, if asked. On the page there is a choice."""
        self._polls = polls
        self._calls = Calls()
        self._title = "nothing was measured"

    def add(self, sample: Sample) -> None:
        """Count a Sample's calls in."""
        self._title = f"{printable(sample.target.comm)} ({sample.target.pid})"
        self._calls.add(sample, sample.window.start_ns)

    def skip(self) -> None:
        """Leave a window out that was too short: it has no calls."""

    def note(self, text: str) -> None:
        """Leave a remark out, which a picture has no place for."""

    def html(self) -> Iterator[str]:
        """The page, in pieces."""
        page = FlamePage(self._title, self._calls.page(with_events=False))
        return document("flamegraph", self._title, iter([ascii_json(page)]))

    def svg(self) -> Iterator[str]:
        """The picture, in pieces."""
        calls = self._calls.page(with_events=False)
        root = whole = call_tree(calls)
        if not self._polls:
            root = call_tree(calls, polls=False)
            # A picture of nothing helps nobody.
            root = root if root.ns else whole
        left_out = ""
        if root.count < whole.count:
            left_out = (
                f"; {whole.count - root.count:,} polls, of {whole.ns - root.ns:,} ns, are left out"
            )
        frames = list(_frames(root))
        height = HEAD + ROW * (1 + max((frame.depth for frame in frames), default=0)) + 8
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}">\n<style>{STYLE}</style>\n'
            f'<rect width="100%" height="100%" fill="#fff"/>\n'
            f'<text class="title" x="8" y="20">{escape(self._title)}</text>\n'
            f'<text class="about" x="8" y="36">Time in system calls, by the stacks that they were'
            f" made from: {root.ns:,} ns in {root.count:,} calls{left_out}</text>\n"
        )
        for frame in frames:
            yield _picture(frame, root)
        yield "</svg>\n"


class Node:
    """A function within its callers: its time and calls, with those of what it called."""

    def __init__(self, name: str, kind: str, about: str = "") -> None:
        """Begin without any; `about` is the object that the function is in."""
        self.name, self.kind, self.about = name, kind, about
        self.ns = self.count = 0
        self.children: dict[object, Node] = {}

    def child(self, key: object, name: str, kind: str, about: str = "") -> "Node":
        """What it called, by a key that identifies it."""
        found = self.children.get(key)
        if found is None:
            found = self.children[key] = Node(name, kind, about)
        return found


class Frame(Struct, frozen=True):
    """A node and its place: `x` and `width` in pixels."""

    node: Node
    depth: int
    x: float
    width: float


def call_tree(calls: PageCalls | None, *, polls: bool = True) -> Node:
    """The calls by thread, functions from the outermost on, and call; its root is all.

    Without `polls` these are left out.
    """
    root = Node("all", "all")
    if calls is None:
        return root
    paths = calls.paths
    left_out = () if polls else calls.polls
    for thread, call, stack, count, ns in zip(
        paths.threads, paths.calls, paths.stacks, paths.counts, paths.ns, strict=True
    ):
        if call in left_out:
            continue
        name, call_name = calls.threads[thread][1], calls.calls[call]
        way = [root, root.child(name, name, "thread")]
        for place in calls.stacks[stack] if stack >= 0 else ():
            way.append(way[-1].child(place, calls.frames[place][0], "user", calls.frames[place][1]))
        way.append(way[-1].child(f"call {call_name}", call_name, "call"))
        for node in way:
            node.ns += ns
            node.count += count
    return root


def _frames(root: Node) -> Iterator[Frame]:
    """The frames that are wide enough, siblings by name."""
    waiting = [Frame(root, 0, 0, WIDTH if root.ns else 0)]
    while waiting:
        frame = waiting.pop()
        if frame.width < LEAST:
            continue
        yield frame
        x = frame.x
        for child in sorted(frame.node.children.values(), key=lambda node: node.name):
            width = WIDTH * child.ns / root.ns
            waiting.append(Frame(child, frame.depth + 1, x, width))
            x += width


def _picture(frame: Frame, root: Node) -> str:
    node = frame.node
    where = f" ({node.about})" if node.about and not node.name.startswith("[") else ""
    share = f"{100 * node.ns / root.ns:.2f} %"
    title = f"{node.name}{where}: {node.ns:,} ns, {share}, {node.count:,} calls"
    room = int((frame.width - 7) / CHARACTER)
    short = node.name if len(node.name) <= room else f"{node.name[: room - 1]}…"
    text = f'<text x="4" y="{ROW - 6}">{escape(short)}</text>' if room > 2 else ""
    y = HEAD + frame.depth * ROW
    return (
        f'<g transform="translate({frame.x:.2f} {y})"><title>{escape(title)}</title>'
        f'<rect class="{node.kind}" width="{max(frame.width - 0.5, 0.2):.2f}"'
        f' height="{ROW - 1}"/>{text}</g>\n'
    )
