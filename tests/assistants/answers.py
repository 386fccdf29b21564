"""What an assistant may answer, and what is true of a recording."""

from msgspec import Struct

OWN_CPU = "had no CPU: its own threads used it"
NO_CPU = "had no CPU: another process used it"
QUOTA = "CPU quota of a cgroup"
SIGNAL = "stopped by a signal"
TRACER = "stopped by a debugger or tracer"
FROZEN = "frozen by a cgroup"
THREAD_LOCK = "lock held by another thread of the process"
PROCESS_LOCK = "lock held by another process"
DISK = "disk: its own reads or writes"
DISK_LIMIT = "disk: I/O limit of a cgroup"
MEMORY_LIMIT = "memory limit of a cgroup"
PAGE_FAULTS = "page faults"
SYSTEM_CALLS = "system calls: the kernel's work for it"
INTERRUPTS = "interrupts"
PEER_COMPUTES = "waits for another process that computes"
PEER_SLEEPS = "waits for another process that sleeps"
PEER_STOPPED = "waits for another process that is stopped"
PEER_NO_CPU = "waits for another process that has no CPU"
PEER_THROTTLED = "waits for another process that a CPU quota throttles"
PEER_UNKNOWN = "waits for another process, and its state is not known"
NOTHING = "nothing delays it"

CAUSES = (
    NO_CPU,
    OWN_CPU,
    QUOTA,
    SIGNAL,
    TRACER,
    FROZEN,
    THREAD_LOCK,
    PROCESS_LOCK,
    DISK,
    DISK_LIMIT,
    MEMORY_LIMIT,
    PAGE_FAULTS,
    SYSTEM_CALLS,
    INTERRUPTS,
    PEER_COMPUTES,
    PEER_SLEEPS,
    PEER_STOPPED,
    PEER_NO_CPU,
    PEER_THROTTLED,
    PEER_UNKNOWN,
    NOTHING,
)
"""The causes that an assistant may name. `question.md` has them too."""

NOBODY = "nobody"
NOT_KNOWN = "not known"
ITSELF = "itself"


class Answer(Struct, frozen=True):
    """What an assistant says of a recording.

    Attributes:
        recording: The name of its file.
        culprit: Who delays the process: `question.md` has the forms.
        cause: One of CAUSES.
        numbers: The figures that it quotes.
        sentence: What it says to a person.
    """

    recording: str
    culprit: str
    cause: str
    numbers: tuple[str, ...] = ()
    sentence: str = ""


class RecordingTruth(Struct, frozen=True):
    """What is true of a recording.

    Attributes:
        recording: The name of its file.
        stage: The stage of tests/verdicts that it shows.
        story: The cause in words.
        target: The process that was measured, and its ID.
        causes: The causes that are right.
        ids: Process and thread IDs of the culprits: one of them is right.
        words: A culprit without an ID is right if it ends with one of these.
        partly: IDs of who is on the way to the culprit: naming one is neither right nor false.
        shown: The first sentence that the tool says.
        attempts: How often it was staged until the tool's first finding was of this cause.
        is_shown: Whether it was in the end.
    """

    recording: str
    stage: str
    story: str
    target: str
    causes: tuple[str, ...]
    ids: frozenset[int]
    words: tuple[str, ...]
    partly: frozenset[int]
    shown: str
    attempts: int
    is_shown: bool


class Exchange(Struct, frozen=True):
    """One line of a transcript: what was asked, and what the tool printed.

    Attributes:
        recordings: The names of the recordings that were asked for. Empty: it was for none.
        asked: The tool or the command, with its arguments.
        answer: The text.
    """

    recordings: tuple[str, ...]
    asked: str
    answer: str
