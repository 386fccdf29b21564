"""Names of C++ and Rust, and what a hostile name can do."""

import sys
from collections.abc import Sequence

import pytest

from kernel_delay.symbols import demangle
from kernel_delay.symbols.demangle import Demangler

CXX = {
    "_ZN4deep2GoINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEE4callEi": (
        "deep::Go<std::__cxx11::basic_string<char, std::char_traits<char>,"
        " std::allocator<char> > >::call(int)"
    ),
    "_ZNSt6vectorIiSaIiEE9push_backEOi.cold": (
        "std::vector<int, std::allocator<int> >::push_back(int&&).cold"
    ),
}
RUST = {
    "_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write",
    "_ZN58_$LT$alloc..vec..Vec$LT$u32$GT$$u20$as$u20$w..deep..Go$GT$2go17h159e64579602ff54E"
    ".llvm.123": "<alloc::vec::Vec<u32> as w::deep::Go>::go",
    "_RNvCsgStHSCytQ6I_7mycrate7example": "mycrate::example",
}
PLAIN = ("main", "_Zebra", "_Ready", "", "_ZN", "_R", "poll_block", "JS:*loop")


def test_names_are_as_written() -> None:
    found = Demangler().names([*CXX, *RUST, *PLAIN])
    assert found == CXX | RUST


def test_each_is_asked_for_once() -> None:
    asked: list[str] = []

    def note(names: Sequence[str]) -> list[str]:
        asked.extend(names)
        return demangle.demangle_apart(names)

    demangler = Demangler(note)
    assert demangler.names(CXX) == CXX
    assert demangler.names([*CXX, *PLAIN[:1]]) == CXX
    assert asked == sorted(CXX)


def test_name_that_expands_exponentially_is_left_mangled() -> None:
    """Each S_ stands for all before it: 2 to the power of 60 letters, if it were written out."""
    bomb = "_Z1fSt4pairIiiE" + "".join(f"S_IS{number:X}_S{number:X}_E" for number in range(60))
    nested = "_Z1f" + "P" * 100_000 + "i"
    deep = "_Z1f" + "N1aI" * 400
    assert Demangler().names([bomb, nested, deep, *CXX]).items() >= CXX.items()


def test_one_that_ends_the_demangler_is_passed_over() -> None:
    def dies_at(names: Sequence[str]) -> list[str]:
        fatal = [place for place, name in enumerate(names) if name == "_Zfatal"]
        return demangle.demangle_apart(names[: fatal[0]] if fatal else names)

    # They are taken in order: there are names before it and after it.
    assert Demangler(dies_at).names(["_Zfatal", *CXX, *RUST, "_ZZ"]) == CXX | RUST


def test_without_the_libraries_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("cxxfilt", "rust_demangler"):
        monkeypatch.setitem(sys.modules, library, None)
    cxx, rust = demangle.cxx_demangler(), demangle.rust_demangler()
    for name in (*CXX, *RUST):
        assert demangle.demangle(name, cxx, rust) == name
