"""What a monitor of Open vSwitch did not see, for the end of its report."""

from collections.abc import Mapping

_WORDS = {
    "loop_events": "events were lost: this process was kept from its CPU for too long",
    "revalidator_rounds": "rounds were lost: this process was kept from its CPU for too long",
    "flow_results": "flows were not counted: their probe was hit while its program ran",
    "flow_events": "events were lost: a larger --buffer-page-count helps",
    "untracked": "results of flows beyond those that are kept track of: new ones are not reported",
    "unknown_results": "results that are none of keep, delete and modify",
    "operations": "operations were lost: a larger --buffer-page-count helps",
    "replies": "messages that were sent back were lost: a larger --buffer-page-count helps",
}


def missed_lines(missed: Mapping[str, int]) -> list[str]:
    """What was not seen, by what a recording's trailer calls it; a line each."""
    return [
        f"{count:,} {_WORDS[kind]}" for kind, count in missed.items() if count and kind in _WORDS
    ]
