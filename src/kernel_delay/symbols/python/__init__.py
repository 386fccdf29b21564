"""Frames of Python's own, read from the memory of a CPython process.

`find_interpreter` finds the interpreter in a process, and `Threads` reads the frames of its
threads. The process goes on meanwhile, and its memory may be anything: no pointer is trusted.
"""

from typing import Literal

from msgspec import Struct

PythonEnd = Literal["whole", "long", "broken"]


class PythonFrame(Struct, frozen=True):
    """One call of a Python function.

    The texts come from the process: escape them when printing.

    Attributes:
        function: The qualified name of the function.
        file: The file as the code has it, or a name such as "<string>".
        line: The line that runs now. None: not known.
    """

    function: str
    file: str
    line: int | None


class PythonStack(Struct, frozen=True):
    """The Python frames of one thread.

    Attributes:
        calls: The frames of each call of the interpreter in C (_PyEval_EvalFrameDefault), the
            innermost call and frame first.
        end: "whole": up to the thread's first function. "long": there are more frames than are
            read. "broken": the next frame cannot be read, or is none.
        is_steady: The frames were the same when they were read again.
    """

    calls: tuple[tuple[PythonFrame, ...], ...]
    end: PythonEnd
    is_steady: bool

    @property
    def frames(self) -> tuple[PythonFrame, ...]:
        """All frames, the innermost first."""
        return tuple(frame for call in self.calls for frame in call)
