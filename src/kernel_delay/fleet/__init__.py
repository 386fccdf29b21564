"""What was exported of many nodes: what is asked of it and answered, which DuckDB finds."""

from msgspec import Struct


class Extent(Struct, frozen=True):
    """What was read: from `first_ns` to `last_ns` of the Unix epoch, which None has if nothing was.

    `windows` are those of all recordings, `rounds` those of them that are a long round of watch.
    """

    nodes: int
    pods: int
    recordings: int
    windows: int
    rounds: int
    first_ns: int | None
    last_ns: int | None


class Outlier(Struct, frozen=True):
    """Threads of a node's pod that lose more to a cause than those of their class elsewhere.

    Of `present_ns`, the time of all of them, they lost `lost_ns`: the `share`. `peers` are as many
    places where such threads were measured, this one among them, and `median_share` what these
    lose. `score` is how far apart that is, in units of how far they stray. In `over_hours` of its
    `hours` it lost as much more than its peers did then: the first window of the first of them
    began at `since_ns`, that of the last at `until_ns`, of the Unix epoch; None where there was
    none. `pod` is its UID, empty for a process in none. `evidence` is the verdict's sentence on
    one of the windows, that of sample `sample` of `recording`; None where it had none.
    """

    node: str
    pod: str
    comm: str
    thread_class: str
    cause: str
    lost_ns: int
    present_ns: int
    share: float
    peers: int
    median_share: float
    score: float
    hours: int
    over_hours: int
    since_ns: int | None
    until_ns: int | None
    evidence: str | None = None
    recording: str | None = None
    sample: int | None = None


class Peers(Struct, frozen=True):
    """What a class of threads loses to one cause everywhere: the median, and the most, by node."""

    comm: str
    thread_class: str
    cause: str
    peers: int
    median_share: float
    most_share: float
    most_node: str
    spread: float


class LongRounds(Struct, frozen=True):
    """The long rounds of a class of threads of a node's pod, by their cause.

    `suppressed` are those of which there is no record, as they came too soon after a longer one.
    """

    node: str
    pod: str
    comm: str
    thread_class: str
    cause: str
    rounds: int
    suppressed: int
    total_ns: int
    longest_ns: int
    first_ns: int
    last_ns: int


class FleetSurvey(Struct, frozen=True):
    """All of it. What is first matters most.

    Of what there is too much for a report there are the first ones, and how many there are in
    all.
    """

    extent: Extent
    outliers: tuple[Outlier, ...]
    all_outliers: int
    peers: tuple[Peers, ...]
    all_peers: int
    long_rounds: tuple[LongRounds, ...]
    all_long_rounds: int
