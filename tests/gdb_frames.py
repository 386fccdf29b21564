"""The frames of a process's threads, as gdb finds them."""

import platform
import subprocess
import tempfile

from tests.needs import needed

# Prints each thread's frames, the innermost first.
PRINT_FRAMES = """
gdb.execute("set backtrace past-main on")
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame:
        # Of inlined functions and tail calls nothing is on the stack.
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            print("FRAME", thread.ptid[1], frame.pc(), frame.name())
        frame = frame.older()
"""


def frames_by_gdb(pid: int) -> dict[int, list[int]]:
    """Each thread's pcs, as gdb finds them."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PRINT_FRAMES)
        script.flush()
        command = [needed("gdb"), "-nx", "-batch", "-p", str(pid), "-x", script.name]
        gdb = subprocess.run(command, capture_output=True, text=True, check=True)
    frames: dict[int, list[int]] = {}
    for line in gdb.stdout.splitlines():
        if line.startswith("FRAME "):
            _, tid, pc, *_ = line.split()
            # Of a thread that was just made it goes on to the address that its outermost
            # function has no caller by.
            if int(pc):
                frames.setdefault(int(tid), []).append(int(pc))
    return frames


def are_gdbs(ours: list[int], theirs: list[int]) -> bool:
    """Whether gdb found the same pcs of a thread that sleeps in a call.

    arm64 has a call made again that gdb's stop has ended: its pc is an instruction before ours
    then (arch/arm64/kernel/signal.c:do_signal(), 5.14 to 6.12).
    """
    if theirs == ours:
        return True
    return platform.machine() == "aarch64" and theirs == [ours[0] - 4, *ours[1:]]
