"""What a kernel lets no program see, and what that costs: one sentence for all who say it."""

from collections.abc import Mapping
from types import MappingProxyType

from kernel_delay.model import Unseen

COSTS: Mapping[Unseen, str] = MappingProxyType(
    {
        "page_faults": "the time of a program's page faults is in user",
        "futex_owners": "the holder of a lock is not known where its waiter slept before the"
        " capture began",
        "earlier_calls": "the system call that a thread was in when the capture began is not known",
    }
)


def say_unseen(part: Unseen) -> str:
    """What the reader of a report is to know of it."""
    return f"This kernel shows no {part.replace('_', ' ')}: {COSTS[part]}"
