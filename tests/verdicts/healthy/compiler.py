"""A compiler, that has much to do."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.programs import installed
from tests.verdicts.staging import program
from tests.verdicts.truth import HEALTHY, Staged

# So many functions take it a minute.
FUNCTIONS = 60_000


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        source = Path(folder) / "large.c"
        body = "int f{0}(int a) {{ for (int i = 0; i < a; i++) a ^= i * {0}; return a; }}"
        source.write_text("\n".join(body.format(number) for number in range(FUNCTIONS)))
        # The driver, gcc, only waits for it.
        command = (installed("gcc"), "-print-prog-name=cc1")
        cc1 = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        with program(cc1, "-quiet", "-O2", source, "-o", "/dev/null", tells=False) as process:
            yield Staged(process.pid, HEALTHY)
