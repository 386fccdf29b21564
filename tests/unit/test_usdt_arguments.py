"""A probe's argument string in words, on both machines, and on any bytes at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_delay.probes.arguments import parse_arguments


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8@%rax", "8 unsigned bytes @ ax"),
        ("-8@%rax", "8 signed bytes @ ax"),
        ("-4@%eax", "4 signed bytes @ ax"),
        ("2@%ax", "2 unsigned bytes @ ax"),
        ("-1@%al", "1 signed byte @ ax"),
        ("1@%ah", "1 unsigned byte @ ah"),
        ("1@%sil", "1 unsigned byte @ si"),
        ("-4@%r10d", "4 signed bytes @ r10"),
        ("1@%r8b", "1 unsigned byte @ r8"),
        ("8f@%xmm0", "8 float bytes @ xmm0"),
        ("-4@$-5", "4 signed bytes @ -5"),
        ("8@$0x10", "8 unsigned bytes @ 16"),
        ("-4@-4(%rbp)", "4 signed bytes @ *(bp - 4)"),
        ("8@(%rsp)", "8 unsigned bytes @ *(sp)"),
        ("8@0x18(%rsp)", "8 unsigned bytes @ *(sp + 24)"),
        ("8@8(%rax,%rbx,4)", "8 unsigned bytes @ *(ax + bx * 4 + 8)"),
        ("8@(%rax,%rbx)", "8 unsigned bytes @ *(ax + bx)"),
        ("8@-8(,%r12,8)", "8 unsigned bytes @ *(r12 * 8 - 8)"),
        ("4@foo(%rip)", "4 unsigned bytes @ *(foo)"),
        ("4@foo+16(%rip)", "4 unsigned bytes @ *(foo + 16)"),
        ("4@16+foo(%rip)", "4 unsigned bytes @ *(foo + 16)"),
        ("8@foo@GOTPCREL(%rip)", "8 unsigned bytes @ *(foo@GOTPCREL)"),
        ("4@.LC0-4(%rip)", "4 unsigned bytes @ *(.LC0 - 4)"),
        ("4@table(,%rax,4)", "4 unsigned bytes @ *(table + ax * 4)"),
        ("8@%fs:0x28", "8 unsigned bytes @ *(fs:0x28)"),
        ("8@%fs:-8(%rax)", "8 unsigned bytes @ *(fs:ax - 8)"),
        ("%rdi", "di"),
        ("8@{odd}", "8 unsigned bytes @ {odd}"),
        ("4@", "4 unsigned bytes @ "),
    ],
)
def test_x86_64(text: str, words: str) -> None:
    assert [str(argument) for argument in parse_arguments(text, "X86_64")] == [words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8@x0", "8 unsigned bytes @ x0"),
        ("-4@w19", "4 signed bytes @ w19"),
        ("8@sp", "8 unsigned bytes @ sp"),
        ("8f@d0", "8 float bytes @ d0"),
        ("-4@5", "4 signed bytes @ 5"),
        ("-4@#-5", "4 signed bytes @ -5"),
        ("8@[sp]", "8 unsigned bytes @ *(sp)"),
        ("8@[sp, 16]", "8 unsigned bytes @ *(sp + 16)"),
        ("-4@[x29,#-8]", "4 signed bytes @ *(x29 - 8)"),
        ("8@[x0, x1]", "8 unsigned bytes @ *(x0 + x1)"),
        ("8@[x0, x1, lsl 3]", "8 unsigned bytes @ *(x0 + x1 * 8)"),
        ("-4@[x0, w1, sxtw 2]", "4 signed bytes @ *(x0 + sxtw(w1) * 4)"),
        ("-4@[x0, #:lo12:foo]", "4 signed bytes @ *(lo12(foo) + x0)"),
        ("-4@[x0, #:lo12:foo+8]", "4 signed bytes @ *(lo12(foo) + x0 + 8)"),
        ("8@[x0], 8", "8 unsigned bytes @ [x0],"),
    ],
)
def test_arm64(text: str, words: str) -> None:
    assert [str(argument) for argument in parse_arguments(text, "AARCH64")][:1] == [words]


def test_blanks_part_arguments_only_outside_brackets() -> None:
    arm64 = parse_arguments("8@[sp, 16] -4@w0  4@[x0, x1, lsl 2]", "AARCH64")
    x86_64 = parse_arguments("-4@%edi 8@-16(%rbp)", "X86_64")
    assert (len(arm64), len(x86_64)) == (3, 2)


def test_no_arguments() -> None:
    assert parse_arguments("", "X86_64") == ()


def test_another_machine_s_text_is_kept() -> None:
    assert [str(a) for a in parse_arguments("8@%r2 -4@168(%r15)", "S390")] == [
        "8 unsigned bytes @ %r2",
        "4 signed bytes @ 168(%r15)",
    ]


syntax = st.text(alphabet="-@$%()[],:#+*rax123sp0f_ ", max_size=40)


@given(st.one_of(st.text(), syntax), st.sampled_from(["X86_64", "AARCH64", "S390"]))
def test_any_nonblank_text_decodes_to_nonempty_arguments(text: str, machine: str) -> None:
    arguments = parse_arguments(text, machine)
    assert bool(arguments) == bool(text.strip())
    assert len(arguments) <= len(text)
    assert all(str(argument) for argument in arguments)
