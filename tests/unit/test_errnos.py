"""The kernel's errors, held against what the C library says of them here."""

import errno
import os

import pytest

from kernel_delay.host.errnos import ERRORS, error_name, error_text


def test_they_are_those_of_this_system() -> None:
    # EHWPOISON is not in older Pythons.
    assert set(ERRORS) == set(errno.errorcode) | {133}
    for number, (name, text) in ERRORS.items():
        assert getattr(errno, name, number) == number
        assert os.strerror(number) == text


@pytest.mark.parametrize("number", [0, 41, 524])
def test_what_is_none_of_them_is_its_number(number: int) -> None:
    """ENOTSUPP, which the kernel alone has, is 524."""
    assert error_name(number) == f"errno {number}"
    assert error_text(number) == f"Unknown error {number}"
