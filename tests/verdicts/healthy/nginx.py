"""An nginx that nobody asks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.programs import installed, wait_for
from tests.verdicts.staging import program
from tests.verdicts.truth import HEALTHY, Staged

CONFIGURATION = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{}}
http {{ access_log off; server {{ listen unix:{folder}/socket; }} }}
"""


@contextmanager
def stage() -> Iterator[Staged]:
    with TemporaryDirectory() as folder:
        (Path(folder) / "nginx.conf").write_text(CONFIGURATION.format(folder=folder))
        command = (installed("nginx"), "-p", folder, "-c", "nginx.conf")
        with program(*command, tells=False) as process:
            wait_for(Path(folder) / "socket", process)
            yield Staged(process.pid, HEALTHY)
