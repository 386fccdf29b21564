"""python -m tests.verdicts.role MODULE FUNCTION [NAME] [NUMBER | PATH …]: a stage's process.

A stage's function runs in an interpreter of its own, so that nothing of who staged it is there.
The process is called NAME.
"""

import os
import sys
from importlib import import_module

from tests.verdicts.names import ARGUMENTS, hidden
from tests.verdicts.staging import call_thread


def main(module: str, function: str, name: str, *arguments: str) -> None:
    """Be the function."""
    call_thread(name)
    values = [int(each) if each.isdecimal() else each for each in arguments]
    getattr(import_module(module), function)(*values)


if __name__ == "__main__":
    main(*(os.environ[ARGUMENTS].split("\n") if hidden() else sys.argv[1:]))
