"""System calls by ABI, name and number; those named here are in the kernel's tables for ever."""

import os

import pytest

from kernel_delay.host.kernel_names import FUTEXES, POLLS
from kernel_delay.host.syscalls import (
    X32_BIT,
    Syscall,
    syscall,
    syscall_name,
    syscalls,
)
from tests.system_calls import syscall_number

X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are x86's")
ARM = pytest.mark.skipif(os.uname().machine != "aarch64", reason="the numbers are Arm's")


@X86
@pytest.mark.parametrize(
    ("number", "compat", "abi", "name"),
    [
        (35, False, None, "nanosleep"),
        (162, False, None, "sync"),
        (162, True, "i386", "nanosleep"),
        (422, True, "i386", "futex_time64"),
        (X32_BIT + 7, False, "x32", "poll"),
        (X32_BIT + 514, False, "x32", "ioctl"),
        # In a 32-bit call the bit means nothing.
        (X32_BIT + 7, True, "i386", None),
        (-1, False, None, None),
        (-1, True, "i386", None),
        (-(1 << 31), False, None, None),
    ],
)
def test_a_number_is_another_call_in_each_abi(
    number: int, compat: bool, abi: str | None, name: str | None
) -> None:
    assert syscall(number, compat) == (abi, number, name)


@ARM
@pytest.mark.parametrize(
    ("number", "compat", "abi", "name"),
    [
        (101, False, None, "nanosleep"),
        (162, True, "arm", "nanosleep"),
        (X32_BIT, False, None, None),
    ],
)
def test_a_number_is_another_call_in_arms_abis(
    number: int, compat: bool, abi: str | None, name: str | None
) -> None:
    assert syscall(number, compat) == (abi, number, name)


@X86
def test_a_name_means_the_calls_of_all_abis() -> None:
    assert syscalls("ioctl") == {
        Syscall(None, 16, "ioctl"),
        Syscall("i386", 54, "ioctl"),
        Syscall("x32", X32_BIT + 514, "ioctl"),
    }
    assert {call.abi for call in syscalls("_newselect")} == {"i386"}
    assert syscalls("xyzzy") == frozenset()


def test_native_names_and_numbers_fit_together() -> None:
    number = syscall_number("futex")
    assert number is not None
    assert syscall_name(number) == "futex"
    assert syscall_number("xyzzy") is None


def test_each_poll_and_futex_call_exists_in_some_abi() -> None:
    assert all(syscalls(name) for name in (*POLLS, *FUTEXES))
