"""Where a USDT probe's arguments are: the note's argument string, decoded.

The string is what the compiler substituted for the operands of an assembler
template (<sys/sdt.h>, systemtap 4.8): arguments separated by blanks, each
`SIZE@OPERAND` where SIZE is in bytes, negative if signed, with an `f` if
floating point, and OPERAND is in the machine's assembler syntax. Anyone can
write anything there, so what is not understood is kept as it is.
"""

import re
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Sign = Literal["signed", "unsigned", "float"]

_SIZED = re.compile(r"(?P<minus>-?)(?P<size>\d{1,3})(?P<float>f?)@(?P<operand>.*)", re.DOTALL)
_INTEGER = r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)"
_SYMBOL = r"[A-Za-z_.][\w.$]*(?:@\w+)?"


class Constant(Struct, frozen=True, tag="constant"):
    """The argument is this number itself."""

    value: int

    def __str__(self) -> str:
        """Return the number in decimal."""
        return str(self.value)


class Register(Struct, frozen=True, tag="register"):
    """The argument is in a register; x86-64's are named for the whole, as in `ax`.

    The parts %ah, %bh, %ch and %dh are not the whole's low bytes: they stay as they are.
    """

    name: str

    def __str__(self) -> str:
        """Return the register's name."""
        return self.name


class Memory(Struct, frozen=True, tag="memory"):
    """The argument is in memory, at the sum of the parts there are.

    The parts are `segment`'s base, `symbol`'s address, `base`, `index` times
    `scale`, and `displacement`. `extend` is how arm64 widens a 32-bit index.
    """

    base: str | None = None
    index: str | None = None
    scale: int = 1
    displacement: int = 0
    symbol: str | None = None
    segment: str | None = None
    extend: str | None = None

    def __str__(self) -> str:
        """Return the sum as C would write it, as in `*(bp - 4)`."""
        index = self.index if self.extend is None else f"{self.extend}({self.index})"
        scaled = index if self.scale == 1 else f"{index} * {self.scale}"
        terms = [self.symbol, self.base, scaled if self.index else None]
        text = " + ".join(term for term in terms if term is not None)
        if not text:
            text = hex(self.displacement)
        elif self.displacement:
            text += f" {'-' if self.displacement < 0 else '+'} {abs(self.displacement)}"
        return f"*({self.segment + ':' if self.segment else ''}{text})"


class Unknown(Struct, frozen=True, tag="unknown"):
    """The argument is where the assembler's own text says; this tool can't read it."""

    text: str

    def __str__(self) -> str:
        """Return the text; it comes from a file and may hold anything."""
        return self.text


Operand = Constant | Register | Memory | Unknown


class Argument(Struct, frozen=True):
    """One argument: how wide it is, how its bits are meant, and where it is.

    `size` is in bytes; `size` and `sign` are None where the string gives none.
    """

    size: int | None
    sign: Sign | None
    operand: Operand

    def __str__(self) -> str:
        """Return the argument in words, as in `8 signed bytes @ ax`."""
        if self.size is None:
            return str(self.operand)
        return f"{self.size} {self.sign} byte{'' if self.size == 1 else 's'} @ {self.operand}"


def parse_arguments(text: str, machine: str) -> tuple[Argument, ...]:
    """Decode a note's argument string, never failing.

    `machine` is the ELF machine without its prefix: `X86_64` or `AARCH64`;
    on any other, every operand is Unknown.
    """
    operand = _OPERAND_OF.get(machine, Unknown)
    return tuple(_argument(word, operand) for word in _split(text))


def _split(text: str) -> list[str]:
    """Split at blanks outside brackets: arm64 writes `8@[sp, 16]`."""
    return re.findall(r"(?:\[[^\]]*\]|\([^)]*\)|\S)+", text)


def _argument(word: str, operand: Callable[[str], Operand]) -> Argument:
    sized = _SIZED.fullmatch(word)
    if sized is None:
        return Argument(None, None, operand(word))
    sign: Sign = "signed" if sized["minus"] else "unsigned"
    return Argument(
        int(sized["size"]), "float" if sized["float"] else sign, operand(sized["operand"])
    )


_X86_CONSTANT = re.compile(rf"\$(?P<value>{_INTEGER})")
_X86_REGISTER = re.compile(r"%(?P<name>[a-z][a-z0-9]{1,5})")
_X86_MEMORY = re.compile(
    rf"(?:%(?P<segment>[c-gs]s):)?(?P<place>(?:{_SYMBOL}|{_INTEGER})(?:[-+](?:{_SYMBOL}|\d+))*)?"
    rf"(?:\((?:%(?P<base>[a-z0-9]+))?(?:,\s*%(?P<index>[a-z0-9]+)(?:,\s*(?P<scale>[1248]))?)?\))?"
)
_X86_LEGACY = re.compile(r"[re]?(?P<name>[abcd]x|[sd]i|[sb]p|ip)|(?P<low>[abcd]|[sd]i|[sb]p)l")
_X86_NUMBERED = re.compile(r"(r(?:[89]|1[0-5]))[dwb]?")


def _x86_operand(text: str) -> Operand:
    if constant := _X86_CONSTANT.fullmatch(text):
        return Constant(_integer(constant["value"]))
    if register := _X86_REGISTER.fullmatch(text):
        return Register(_x86_whole(register["name"]))
    memory = _X86_MEMORY.fullmatch(text)
    if memory is None or not text or (memory["place"] is None and "(" not in text):
        return Unknown(text)
    symbol, displacement = _place(memory["place"] or "0")
    base = memory["base"]
    return Memory(
        # `symbol(%rip)` is the symbol's own address: %rip is not added to it.
        base=_x86_whole(base) if base and not (base == "rip" and symbol) else None,
        index=_x86_whole(memory["index"]) if memory["index"] else None,
        scale=int(memory["scale"] or 1),
        displacement=displacement,
        symbol=symbol,
        segment=memory["segment"],
    )


def _x86_whole(register: str) -> str:
    """`ax` for rax, eax, ax and al; `r8` for r8, r8d, r8w and r8b."""
    if numbered := _X86_NUMBERED.fullmatch(register):
        return numbered[1]
    if legacy := _X86_LEGACY.fullmatch(register):
        low: str | None = legacy["low"]
        return legacy["name"] if low is None else low if len(low) == 2 else f"{low}x"
    return register


def _place(text: str) -> tuple[str | None, int]:
    """Part a sum of symbols and numbers, as in `16+foo`, into symbols and the numbers' sum."""
    displacement, symbols = 0, ""
    for sign, term in re.findall(rf"([-+]?)({_SYMBOL}|0[xX][0-9a-fA-F]+|\d+)", text):
        if re.fullmatch(_INTEGER, term):
            displacement += _integer(sign + term)
        else:
            symbols += f"{sign if symbols or sign == '-' else ''}{term}"
    return symbols or None, displacement


_ARM64_CONSTANT = re.compile(rf"#?(?P<value>{_INTEGER})")
_ARM64_REGISTER = re.compile(r"(?P<name>[xw](?:[12]?\d|30)|[wx]zr|w?sp|[bhsdqv](?:[12]?\d|3[01]))")
_ARM64_MEMORY = re.compile(
    rf"\[(?P<base>x\d+|sp)(?:,\s*(?:#?(?P<displacement>{_INTEGER})|#?:(?P<how>\w+):(?P<symbol>"
    rf"{_SYMBOL})(?P<addend>[-+]\d+)?|(?P<index>[xw]\d+)"
    rf"(?:,\s*(?P<extend>lsl|[us]xt[wx])(?:\s+#?(?P<shift>[0-4]))?)?))?\]"
)


def _arm64_operand(text: str) -> Operand:
    if constant := _ARM64_CONSTANT.fullmatch(text):
        return Constant(_integer(constant["value"]))
    if register := _ARM64_REGISTER.fullmatch(text):
        return Register(register["name"])
    memory = _ARM64_MEMORY.fullmatch(text)
    if memory is None:
        return Unknown(text)
    how, extend = memory["how"], memory["extend"]
    return Memory(
        base=memory["base"],
        index=memory["index"],
        scale=1 << int(memory["shift"] or 0),
        displacement=_integer(memory["displacement"] or memory["addend"] or "0"),
        # The part of the address that the base lacks, as in `:lo12:foo`.
        symbol=f"{how}({memory['symbol']})" if how else None,
        extend=extend if extend != "lsl" else None,
    )


def _integer(text: str) -> int:
    return int(text, 16 if "x" in text.lower() else 10)


_OPERAND_OF: dict[str, Callable[[str], Operand]] = {
    "X86_64": _x86_operand,
    "AARCH64": _arm64_operand,
}
