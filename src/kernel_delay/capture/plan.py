"""What is to be measured when: by the clock, or between the hits of triggers."""

from msgspec import Struct

from kernel_delay.probes.attach_points import AttachPoint


class TriggerPoints(Struct, frozen=True):
    """A trigger and the places it is at; a USDT probe can be at several.

    `text` is the trigger as the user writes it.
    """

    text: str
    points: tuple[AttachPoint, ...]


class WindowPlan(Struct, frozen=True):
    """Which windows to measure.

    Without triggers, `count` windows of `sample_time_ns`, `interval_ns`
    apart. `start` opens a window and `stop` closes it: with no `start` it is
    open at once, with no `stop` it lasts `sample_time_ns`. A window shorter
    than `shortest_ns` is not one of the `count`. With `same_thread` only the
    thread that opened a window can close it. `timeout_ns` bounds the wait for
    one hit; None: none.
    """

    sample_time_ns: int
    count: int = 1
    interval_ns: int = 0
    start: TriggerPoints | None = None
    stop: TriggerPoints | None = None
    shortest_ns: int = 0
    same_thread: bool = False
    timeout_ns: int | None = None
