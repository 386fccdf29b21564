"""What is said of a program that the kernel refuses: by whom, which one, and why."""

import os
import subprocess
from pathlib import Path

import pytest

from kernel_delay.errors import KernelDelayError, UnavailableError
from kernel_delay.loader.base import BpfError, start_log
from kernel_delay.loader.objects import load_object
from kernel_delay.loader.programs import BpfObject
from tests.needs import needed

pytestmark = pytest.mark.usefixtures("measurable")

SOURCE = Path(__file__).with_name("refused.bpf.c")

OUT_OF_BOUNDS = "R2 unbounded memory access, make sure to bounds check any such access"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refused") / "refused.bpf.o"
    # As in src/kernel_delay/bpf/meson.build.
    headers = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    command = (needed("clang"), "--target=bpf", "-O2", "-g", headers, "-c", str(SOURCE))
    subprocess.run([*command, "-o", str(path)], check=True)
    return path


def refused(compiled: Path, name: str) -> KernelDelayError:
    """What is said where only the program of this name is to be loaded."""
    start_log(-1)
    with BpfObject(compiled) as bpf_object:
        for program in bpf_object.programs():
            program.autoload = program.name == name
        with pytest.raises(KernelDelayError) as caught:
            load_object(bpf_object)
    return caught.value


@pytest.mark.parametrize("name", ["out_of_bounds", "long_way_out_of_bounds"])
def test_verifiers_eacces_is_called_a_refusal_by_the_verifier(compiled: Path, name: str) -> None:
    error = refused(compiled, name)
    assert isinstance(error, UnavailableError)
    what = f"the kernel's verifier refuses the program {name} (loading refused.bpf.o: Permission"
    assert error.what.startswith(what)
    assert error.what.endswith(OUT_OF_BOUNDS)
    assert error.remedy
    assert os.uname().release in error.remedy


def test_missing_helper_is_named_with_the_program(compiled: Path) -> None:
    error = refused(compiled, "no_such_helper")
    assert "the kernel's verifier refuses the program no_such_helper" in error.what
    assert error.what.endswith("invalid func unknown#100000")


def test_error_quotes_the_log_of_its_own_program(compiled: Path) -> None:
    start_log(-1)
    with BpfObject(compiled) as optional:
        for program in optional.programs():
            program.autoload = program.name == "no_such_helper"
        with pytest.raises(BpfError):
            optional.load()
    error = refused(compiled, "out_of_bounds")
    assert "no_such_helper" not in str(error)
    assert error.what.endswith(OUT_OF_BOUNDS)
