"""How long unwinding and naming take: 10,000 events of a few hundred distinct stacks.

The stacks are of a Python process that sorts within sorts, up to 50 frames
deep. Each is unwound anew: there is no cache that could be wrong. Needs root:
.venv/bin/python -m bench.unwinding
"""

import random
import subprocess
import sys
import time

from kernel_delay.symbols import AddressSpace, ProcessImage
from tests.integration.symbols.stopped_thread import stopped

EVENTS = 10_000
SNAPSHOTS = 600
STACK_BYTES = 16384

TARGET = """
import json, random, re
WORK = [
    lambda: json.dumps({"a": [random.random()]}),
    lambda: re.sub("a+", "b", "aab" * random.randrange(20)),
    lambda: "".join(map(str, range(random.randrange(50)))),
]
def nest(depth):
    return sorted([1, 2], key=lambda i: str(nest(depth - 1))) if depth else random.choice(WORK)()
print(flush=True)
while True:
    nest(random.randrange(4))
"""


def main() -> None:
    """Measure, and print a line for each step."""
    image, snapshots = take_snapshots()
    events = random.choices(snapshots, k=EVENTS)
    with image:
        space = AddressSpace(image)
        begin = time.perf_counter()
        first = space.unwind(*events[0])
        report("open the objects, unwind the first", begin, f"{len(first.pcs)} frames")
        begin = time.perf_counter()
        stacks = [space.unwind(*event) for event in events]
        report("unwind", begin, f"{sum(len(stack.pcs) for stack in stacks)} frames")
        begin = time.perf_counter()
        distinct = set(stacks)
        frames = {frame for stack in distinct for frame in space.frames(stack)}
        report("name", begin, f"{len(frames)} distinct frames of {len(distinct)} stacks")
        ends = [stack.end for stack in stacks]
        print("ends:", {end: ends.count(end) for end in sorted(set(ends))})
        space.close()


def take_snapshots() -> tuple[ProcessImage, list[tuple[tuple[int, ...], bytes, int]]]:
    """Stop the target now and then, and copy its registers and stack."""
    with subprocess.Popen([sys.executable, "-c", TARGET], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            begin = time.perf_counter()
            image = ProcessImage(process.pid)
            report("note the process", begin, f"{len(image.objects)} objects")
            snapshots = []
            for _ in range(SNAPSHOTS):
                time.sleep(random.random() / 500)
                with stopped(process.pid) as thread:
                    sp, copy = thread.stack(STACK_BYTES)
                    snapshots.append((thread.registers(), copy, sp))
            return image, snapshots
        finally:
            process.kill()


def report(what: str, begin: float, count: str) -> None:
    """Print how long `what` took since `begin`."""
    print(f"{what:36} {(time.perf_counter() - begin) * 1e3:9.1f} ms  {count}")


if __name__ == "__main__":
    main()
