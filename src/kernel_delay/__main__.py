"""Where `kernel-delay` and `python -m kernel_delay` begin.

What a signal does comes before anything that takes time.
"""

# Those of C alone: `signal` itself imports others first.
import _signal  # type: ignore[import-not-found]
import gc
import posix
import sys


def _end(number: int, frame: object) -> None:
    posix._exit(128 + number)


_ENDS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)

for _number in _ENDS:
    if _signal.getsignal(_number) is not _signal.SIG_IGN:
        _signal.signal(_number, _end)
# The launcher has blocked them until now.
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, _ENDS)


# What modules allocate as they are imported stays. After each 700 objects, the interpreter would
# look for cycles among them, which takes 7 ms until a window opens.
gc.set_threshold(50_000)


def _name_task() -> None:
    """Be called kernel-delay, not python3, by the kernel; threads that begin later are too."""
    try:
        comm = posix.open("/proc/self/comm", posix.O_WRONLY)
        try:
            posix.write(comm, b"kernel-delay")
        finally:
            posix.close(comm)
    except OSError:
        return  # Without /proc the command itself says what is missing.


_name_task()


def _prints_overview() -> bool:
    """Print the help that takes no parser. False where that fails: the command says why."""
    from kernel_delay.register import OVERVIEW

    text = OVERVIEW.encode()
    try:
        return posix.write(1, text) == len(text)
    except OSError:
        return False


_UNAVAILABLE = 69  # as in errors.py


def _report(error: BaseException) -> int:
    """Print why the command line can't be imported; return the exit status."""
    try:
        from kernel_delay.errors import cannot_load, shortage
        from kernel_delay.reporters import print_message

        print_message(shortage(error) or cannot_load(error))
    except (ImportError, OSError, MemoryError):
        # These need what could not be imported too.
        line = (
            f"kernel-delay: a part can't be loaded ({error}): is memory short, a file unreadable?\n"
        )
        try:
            posix.write(2, line.encode(errors="replace"))
        except OSError:
            return _UNAVAILABLE
    return _UNAVAILABLE


def main() -> int:
    """Run the command of sys.argv; return its exit status."""
    if sys.argv[1:] in (["--help"], ["-h"]) and _prints_overview():
        return 0
    try:
        from kernel_delay.cli import main
    except (ImportError, OSError, MemoryError) as error:
        return _report(error)
    status = main()
    # The interpreter would look for cycles twice more, which takes 10 ms.
    gc.disable()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
