"""python -m bench.verifying FILE: what loading takes on this kernel, written to FILE as JSON."""

import sys
import time
from pathlib import Path

import msgspec

from bench.cost.programs import OPTION_SETS, Verified, load_capture, open_capture
from kernel_delay.errors import KernelDelayError
from kernel_delay.loader.objects import load_object

LOADS = 3


class Loading(msgspec.Struct, frozen=True):
    """What the capture's object takes with one set of options.

    Attributes:
        verified: What the verifier processed of each program.
        load_ms: How long it took to load them all, each time.
    """

    verified: dict[str, Verified]
    load_ms: list[float]


def main() -> int:
    """Load it with each set of options."""
    try:
        found = {
            name: Loading(load_capture(options).verified, [_load_ms(name) for _ in range(LOADS)])
            for name, options in OPTION_SETS.items()
        }
    except KernelDelayError as error:
        print(f"verifying: {error}", file=sys.stderr)
        return error.exit_code
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(found))
    return 0


def _load_ms(name: str) -> float:
    """Load it as a capture does, without the verifier's log."""
    with open_capture(OPTION_SETS[name]) as bpf_object:
        begun = time.monotonic()
        load_object(bpf_object)
        return (time.monotonic() - begun) * 1e3


if __name__ == "__main__":
    sys.exit(main())
