"""Names of a stage's processes that do not give its cause away, for recordings of a quiz.

They are hidden while the environment has KERNEL_DELAY_HIDES_NAMES. Its value is a salt: a name
is shown as another one in each recording. A process then gets its arguments from the environment.
"""

import os

SALT = "KERNEL_DELAY_HIDES_NAMES"
ARGUMENTS = "STAGE_ARGUMENTS"


def hidden() -> bool:
    """Whether names are hidden."""
    return SALT in os.environ


def shown_name(name: str) -> str:
    """The name that a process or thread of a stage has. workload.h has the same for C."""
    if not hidden():
        return name
    value = 2166136261
    for byte in (os.environ[SALT] + name).encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return f"task-{value & 0xFFF:03x}"
