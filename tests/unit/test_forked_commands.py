"""kernel-delay in a fork of the tests, as guests run it."""

import gc
import os

from tests.commands import give_up_descriptors


def _is_kept_from_garbage() -> bool:
    """Whether what is opened behind give_up_descriptors() outlives the collection of garbage."""
    give_up_descriptors(os.open(os.devnull, os.O_RDONLY))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    gc.collect()
    return all(os.path.lexists(f"/proc/self/fd/{number}") for number in opened)


def test_garbage_files_of_tests_close_no_descriptor_of_commands() -> None:
    cycle: list[object] = [open(os.devnull) for _ in range(8)]  # noqa: SIM115 (that is the point)
    cycle.append(cycle)
    del cycle
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _is_kept_from_garbage() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_closed_pipe_of_the_tests_ends_in_the_command() -> None:
    reader, writer = os.pipe()
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(there)
        kept = os.dup(here)
        give_up_descriptors(os.open(os.devnull, os.O_RDONLY))
        os.read(kept, 1)  # the null device by now: at its end
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.waitpid(pid, 0)
    for number in (reader, here, there):
        os.close(number)
