"""The kernel's tracepoints, those of its modules and of system calls too."""

from collections.abc import Iterable
from pathlib import Path

from kernel_delay.errors import NoInputError, PermissionDeniedError
from kernel_delay.probes.attach_points import Tracepoint
from kernel_delay.suggestions import hint, similar_names


def find_tracepoint(tracefs: Path, system: str, event: str) -> Tracepoint:
    """Find a tracepoint under `tracefs`; NoInputError, with the closest, if there is none."""
    try:
        number = (tracefs / "events" / system / event / "id").read_text()
    except (FileNotFoundError, NotADirectoryError):
        raise NoInputError(_missing(system, event, tracepoint_names(tracefs))) from None
    except PermissionError as error:
        raise PermissionDeniedError(
            f"tracepoint t:{system}:{event} can't be read by this user: run as root"
        ) from error
    return Tracepoint(system, event, int(number))


def tracepoint_names(tracefs: Path) -> tuple[str, ...]:
    """Every tracepoint there is, as SYSTEM:EVENT, sorted."""
    # `available_events` names them all in one read, but a locked-down kernel denies it.
    try:
        return tuple(sorted((tracefs / "available_events").read_text().split()))
    except PermissionError:
        events = (tracefs / "events").glob("*/*/id")
        return tuple(sorted(f"{path.parts[-3]}:{path.parts[-2]}" for path in events))


def _missing(system: str, event: str, names: Iterable[str]) -> str:
    names = tuple(names)
    if any(name.startswith(f"{system}:") for name in names):
        likely = similar_names(f"{system}:{event}", names)
        return f"no tracepoint t:{system}:{event}{hint(f't:{name}' for name in likely)}"
    systems = similar_names(system, sorted({name.partition(":")[0] for name in names}))
    elsewhere = tuple(name for name in names if name.endswith(f":{event}"))
    likely = tuple(f"t:{name}" for name in elsewhere) or tuple(f"t:{name}:…" for name in systems)
    return (
        f"no tracepoint t:{system}:{event}: this kernel has no system {system!r}"
        f" (a module's is there once the module is loaded){hint(likely[:3])}"
    )
