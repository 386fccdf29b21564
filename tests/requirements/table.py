"""requirements.toml: what is known of each requirement of the objects."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, convert

from tests.requirements.objects import Requirement

OLDEST = "5.14"


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of a requirement.

    since: the first version of Linux that has it; "" if libbpf provides it.
    until: the last version that has it, "" if the newest does.
    commit: the commit that brought it, "" if not looked up.
    arm64: the first version that has it on arm64, "" if `since` is that.
    without: what is missing without it; "" if it is mandatory.
    asked: by what else an object knows whether it is there: another requirement, or USER_SPACE.
    machine: the only architecture whose objects need it, "" if all do.
    module: the kernel's module that may have it; its types are not in those of vmlinux.
    """

    since: str = ""
    until: str = ""
    commit: str = ""
    arm64: str = ""
    without: str = ""
    asked: str = ""
    machine: str = ""
    module: str = ""


# The tool looks, or tries to load or attach the program.
USER_SPACE = "user space"


def read_rows() -> Mapping[Requirement, Row]:
    """Read the table."""
    text = Path(__file__).with_name("requirements.toml").read_text()
    kinds = convert(tomllib.loads(text), dict[str, dict[str, Row]])
    return {
        Requirement(kind, name): row for kind, rows in kinds.items() for name, row in rows.items()
    }


def is_newer(version: str, than: str) -> bool:
    """Return whether a version of Linux is newer than another."""
    ours, others = ([int(part) for part in each.split(".")] for each in (version, than))
    return ours > others
