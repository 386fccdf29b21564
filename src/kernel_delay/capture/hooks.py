"""The programs that are attached, and which events none was run on.

A hook has one program, or two. The other side is take_over() in bpf/thread.h.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Literal

from kernel_delay.capture import program_names
from kernel_delay.host.kernel_names import IRQ_TRACEPOINTS
from kernel_delay.loader.base import BpfError
from kernel_delay.loader.programs import BpfObject, Program

Kind = Literal["calls", "wakeups", "switches", "scheduler", "interrupts"]
"""Of events: system calls and page faults; wake-ups; context switches; what else the scheduler
does, and threads' lives; hard and soft IRQs.
"""

_KINDS: tuple[tuple[str, Kind], ...] = (
    ("on_sys_", "calls"),
    ("on_fault_", "calls"),
    ("on_kvm_", "calls"),
    ("on_sched_wak", "wakeups"),
    ("on_sched_switch", "switches"),
    ("on_irq_", "interrupts"),
    ("on_softirq_", "interrupts"),
)


def kind_of(program: str) -> Kind:
    """Return which events a program of capture.bpf.c is run on, by its name."""
    return next((kind for prefix, kind in _KINDS if program.startswith(prefix)), "scheduler")


class Hook:
    """A program that is attached, and perhaps a fallback for what it is kept from."""

    def __init__(
        self,
        program: Program,
        fallback: Program | None = None,
        taken_over: Callable[[], int] = lambda: 0,
    ) -> None:
        """Count from now on; `taken_over` returns how many events the fallback handled."""
        self.kind = kind_of(program.name)
        self._program = program
        self._fallback = fallback
        self._taken_over = taken_over
        self._left, self._missed = self._counters()

    def newly_missed(self) -> int:
        """Return how many events had neither of the two since the last call, at most.

        The kernel counts what each was kept from, in any process, but not whether these
        were the same events.
        """
        left, missed = self._counters()
        new_left, new_missed = left - self._left, missed - self._missed
        self._left, self._missed = left, missed
        return max(0, min(new_left, new_missed))

    def _counters(self) -> tuple[int, int]:
        """Return what the program left to its fallback in vain, and what that was kept from."""
        left = self._program.recursion_misses()
        if self._fallback is None:
            return left, left
        return left - self._taken_over(), self._fallback.recursion_misses()


class Hooks:
    """The programs of an object that are attached."""

    def __init__(
        self,
        bpf_object: BpfObject,
        closing: ExitStack,
        counter: Callable[[program_names.Counter], int],
        *,
        fallbacks: bool,
    ) -> None:
        """Attach none yet.

        Args:
            bpf_object: capture.bpf.c, loaded.
            closing: detaches what is attached.
            counter: returns a counter of the programs.
            fallbacks: whether programs that can be preempted have theirs.
        """
        self._object = bpf_object
        self._closing = closing
        self._counter = counter
        self._has_fallbacks = fallbacks
        self._hooks: list[Hook] = []
        self._missed: Counts[Kind] = Counts()

    def missed(self) -> Counts[Kind]:
        """Return how many events had no program since they were attached, at most."""
        for hook in self._hooks:
            self._missed[hook.kind] += hook.newly_missed()
        return self._missed

    def count(self, names: Iterable[str]) -> None:
        """Count what these programs miss, which others attach."""
        self._hooks.extend(Hook(self._object.program(name)) for name in names)

    def attach(self, program: Program) -> None:
        """Attach a program and, behind it, its fallback if that is loaded."""
        self._attach(program)
        if not self._has_fallbacks or program.name not in program_names.FALLBACKS:
            self._hooks.append(Hook(program))
            return
        fallback = self._object.program(program_names.FALLBACKS[program.name])
        self._attach(fallback)
        if program.name not in program_names.TAKEN_OVER:
            self._hooks.append(Hook(program, fallback))
            return
        counter = program_names.TAKEN_OVER[program.name]
        self._hooks.append(Hook(program, fallback, lambda: self._counter(counter)))

    def _attach(self, program: Program) -> None:
        self._closing.callback(program.attach().close)

    def attach_functions(self, name: str, functions: Sequence[str]) -> bool:
        """Attach to functions of the kernel; return whether it takes programs there."""
        program = self._object.program(name)
        try:
            link = program.attach_functions(functions)
        except BpfError:
            return False
        self._closing.callback(link.close)
        self._hooks.append(Hook(program))
        return True

    def attach_all(self, names: tuple[str, ...]) -> BpfError | None:
        """Attach these or none, if they are to be; return why this kernel refuses."""
        programs = [self._object.program(name) for name in names]
        if not all(program.autoload for program in programs):
            return None
        with ExitStack() as links:
            try:
                for program in programs:
                    link = program.attach()
                    links.callback(link.close)
            except BpfError as error:
                return error
            self._closing.push(links.pop_all())
        self._hooks.extend(Hook(program) for program in programs)
        return None

    def attach_to_vectors(self) -> None:
        """Attach to those of x86's own interrupts that this kernel has tracepoints of."""
        leaving = self._object.program(program_names.VECTOR_EXIT)
        entering = self._object.program(program_names.VECTOR_ENTRY)
        for interrupt in IRQ_TRACEPOINTS:
            with ExitStack() as links, suppress(BpfError):
                for program, end in ((leaving, "exit"), (entering, "entry")):
                    link = program.attach_raw_tracepoint(f"{interrupt}_{end}")
                    links.callback(link.close)
                self._closing.push(links.pop_all())
        self._hooks.append(Hook(entering))
