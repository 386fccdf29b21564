"""Where the command begins: what a signal does comes before anything that takes time."""

# The two of C alone: `signal` itself imports others first.
import _signal  # type: ignore[import-not-found]
import posix


def _end(number: int, frame: object) -> None:
    posix._exit(128 + number)


for _number in (_signal.SIGINT, _signal.SIGTERM):
    if _signal.getsignal(_number) is not _signal.SIG_IGN:
        _signal.signal(_number, _end)
# The launcher has blocked them until now.
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGINT, _signal.SIGTERM))


def main() -> int:
    """Run the command of sys.argv; return its exit status."""
    from kernel_delay.cli import main

    return main()
