"""What to measure, as text: a command for each process that loses time, to be pasted."""

from collections.abc import Iterator

from kernel_delay.formatting import brief, printable
from kernel_delay.host.losing import Losing, LossSurvey
from kernel_delay.reporters.layout import Layout

MOST_SHOWN = 10


def render(survey: LossSurvey, layout: Layout) -> str:
    """The worst first, each with what it lost; each line with its end."""
    return "".join(f"{line}\n" for line in _lines(survey, layout))


def _lines(survey: LossSurvey, layout: Layout) -> Iterator[str]:
    interval, found = brief(survey.interval_ns), survey.processes
    if not found:
        yield from layout.comment(
            f"In {interval} no process waited long for a CPU or a disk, or was throttled."
            " Measure one that you know: kernel-delay -p PID, or --comm NAME"
        )
        return
    yield from layout.comment(
        f"Who lost most time in {interval}, and the command that measures it:", "heading"
    )
    commands = [_command(each) for each in found[:MOST_SHOWN]]
    width = max(map(len, commands))
    for command, each in zip(commands, found, strict=False):
        yield f"{command:{width}}  # {printable(each.comm)}: {_losses(each)}"
    if len(found) > MOST_SHOWN:
        yield from layout.comment(f"{len(found) - MOST_SHOWN:,} more lost less.")


def _command(loss: Losing) -> str:
    """A thread that sleeps throughout loses its time in one place: where."""
    stuck = loss.uninterruptible and not loss.waited_ns
    return f"kernel-delay {'where ' if stuck else ''}-p {loss.pid}"


def _losses(loss: Losing) -> str:
    """Short, as a line has 80 columns."""
    losses = []
    if loss.throttled_ns:
        losses.append(f"throttled for {brief(loss.throttled_ns)}")
    if loss.uninterruptible:
        losses.append(f"{_threads(loss.uninterruptible)} in state D")
    if loss.waited_ns:
        many = f" ({_threads(loss.waiting)})" if loss.waiting > 1 else ""
        losses.append(f"waited {brief(loss.waited_ns)} for a CPU{many}")
    return ", ".join(losses)


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count:,} threads"
