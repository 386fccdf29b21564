"""Print the frames of a call_chain's thread as JSON: python -m ...frames_of PID TID.

A program of its own, so that a test can take capabilities from it.
"""

import sys

import msgspec

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.stopped_thread import stopped


def main(pid: int, tid: int) -> None:
    with stopped(tid) as thread, ProcessImage(pid) as image:
        space = AddressSpace(image)
        sp, copy = thread.stack()
        frames = space.frames(space.unwind(thread.registers(), copy, sp))
        space.close()
    sys.stdout.buffer.write(msgspec.json.encode(frames))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
