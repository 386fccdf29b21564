"""The BPF objects that are installed with the package: opened and loaded."""

from pathlib import Path

from kernel_delay.libbpf import BpfError, BpfObject, take_log
from kernel_delay.loader import _records
from kernel_delay.loader.refusals import not_opened, refusal


def open_object(name: str) -> BpfObject:
    """Open `name`.bpf.o; nothing is in the kernel yet.

    Raises UnavailableError where the file is damaged, or memory or descriptors are short.
    """
    take_log()  # An error is not to quote what was said of another object.
    # Beside what else is compiled: an editable build has that elsewhere than the modules.
    path = Path(_records.__file__).parents[1] / "bpf" / f"{name}.bpf.o"
    try:
        return BpfObject(path)
    except BpfError as error:
        raise not_opened(error) from error


def load_object(bpf_object: BpfObject) -> None:
    """Load the object's maps and programs.

    Raises PermissionDeniedError when eBPF is refused, and UnavailableError
    when this kernel can't run a program.
    """
    take_log()  # As above.
    try:
        bpf_object.load()
    except BpfError as error:
        raise refusal(error) from error
