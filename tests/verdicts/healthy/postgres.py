"""A PostgreSQL that nobody asks."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.verdicts.programs import wait_for
from tests.verdicts.staging import program
from tests.verdicts.truth import HEALTHY, NotHereError, Staged

USER = "postgres"


@contextmanager
def stage() -> Iterator[Staged]:
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not binaries:
        raise NotHereError("PostgreSQL is not installed: setup/packages-verdicts.txt has it")
    with TemporaryDirectory() as folder:
        shutil.chown(folder, USER)
        data = f"{folder}/data"
        initialise = (binaries[-1] / "initdb", "--no-sync", "--auth=trust", data)
        subprocess.run(initialise, check=True, user=USER, cwd="/", stdout=subprocess.DEVNULL)
        command = (binaries[-1] / "postgres", "-D", data, "-k", folder, "-h", "")
        with program(*command, tells=False, user=USER) as process:
            wait_for(Path(folder) / ".s.PGSQL.5432", process)
            yield Staged(process.pid, HEALTHY)
