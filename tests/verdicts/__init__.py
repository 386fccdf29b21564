"""Whether the verdict is true: causes staged on purpose, and healthy programs.

Each module of `causes` stages one thing that keeps a process from its work, and each of
`healthy` a program that nothing ails: its context manager `stage` starts the processes and
yields the one to measure, with the truth about it (truth.py). `make test-verdicts` measures
five windows of a second of each, judges the verdict of each window (judge.py) and prints a table:

- right: a finding, or a remark, of a rule that is true here, that names who it must;
- vague: true, but it tells less;
- nothing: the verdict tells nothing of it;
- FALSE: something innocent is blamed, or the kernel acquitted of what it did.

Of a healthy program it is right to find nothing; remarks are no findings. A truth is what was
staged and is not made to fit the rules. The machine may be busy, so that a process does wait
for a CPU, or the hypervisor does take one: such a finding is held against the kernel's own
counts (oracle.py), and is false only if these refute it.

A new stage is a file: its name is the case's.
"""
