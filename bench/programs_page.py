"""docs/reference/verifier.md: what the verifier takes for each program of each object."""

from collections.abc import Iterator, Sequence

from bench import tables
from bench.figures import Measured, Results
from bench.measures import verifier
from bench.page import PAGE

PROGRAMS_PAGE = PAGE.with_name("verifier.md")

_HEAD = """# What the verifier takes for each program

`sudo make bench` writes this page. A cell has the instructions that the kernel's verifier
processes, and the time that this takes, the shortest of several loads. Where several sets of
options load a program, the largest figure of them is shown. The limit is 1,000,000 instructions.
The last column has the conditional jumps, the most of all kernels, and how much of 8,192 they are.

An empty cell: no set of options loads the program on that kernel, or the version that was measured
had none. The table at the end has why a kernel refuses a program. The totals are in
[What measuring costs](performance.md#what-the-kernels-verifier-takes)."""


def render_programs(results: Results) -> str:
    """Return the page."""
    lines = [_HEAD, ""]
    if (measured := results.measures.get(verifier.Verifier.name)) is not None:
        lines += _of(measured)
    return "\n".join(lines).rstrip() + "\n"


def _of(measured: Measured) -> Iterator[str]:
    yield f"Measured {measured.when}, version {measured.version}."
    yield ""
    if remarks := list(tables.circumstances(measured)):
        yield from (*remarks, "")
    objects = verifier.by_object(measured)
    cases = {case for of_object in objects.values() for case in of_object}
    kernels = list(dict.fromkeys(each.peer for each in measured.figures if each.case in cases))
    for name, of_object in objects.items():
        yield f"## {name}.bpf.o"
        yield ""
        yield tables.row(["program", *kernels, verifier.JUMPS])
        yield tables.row(["---", *("---:" for _ in kernels), "---:"])
        yield from (_row(measured, case, kernels) for case in sorted(of_object))
        yield ""
    yield from _refused(measured)


def _refused(measured: Measured) -> Iterator[str]:
    yield "## What a kernel refuses"
    yield ""
    yield tables.row(["kernel", "object", "programs", "reason"])
    yield tables.row(["---"] * 4)
    refused: dict[tuple[str, str, str], list[str]] = {}
    for each in measured.absent:
        case, _, reason = each.reason.partition(": ")
        if verifier.PROGRAM in case:
            program = verifier.program_name(case)
            of_object = case.partition(verifier.PROGRAM)[0]
            refused.setdefault((each.peer, of_object, reason), []).append(f"`{program}`")
    for (kernel, of_object, reason), programs in refused.items():
        yield tables.row([kernel, f"{of_object}.bpf.o", ", ".join(programs), reason])


def _row(measured: Measured, case: str, kernels: Sequence[str]) -> str:
    program = verifier.program_name(case)
    cells = (_cell(measured, case, kernel) for kernel in kernels)
    return tables.row([f"`{program}`", *cells, _jumps(measured, case)])


def _cell(measured: Measured, case: str, kernel: str) -> str:
    instructions = measured.figure(case, kernel)
    if instructions is None:
        beginning = f"{case}: "
        is_refused = any(
            each.peer == kernel and each.reason.startswith(beginning) for each in measured.absent
        )
        return "refused" if is_refused else ""
    time = measured.figure(case + verifier.TIME_OF, kernel)
    shown = f", {tables.number(time.median)} ms" if time else ""
    return f"{instructions.median:,.0f}{shown}"


def _jumps(measured: Measured, case: str) -> str:
    of_case = case + verifier.JUMPS_OF
    if all(figure.case != of_case for figure in measured.figures):
        return ""
    most = verifier.peak(measured, [of_case]).median
    return f"{most:,.0f} ({100 * most / verifier.LIMIT_OF_JUMPS:.2g} %)"
