"""C++ and Rust names as their programmers wrote them.

The names come from other programs' files, and there are some that make a
demangler loop, crash or fill all memory. So it is a process of its own, this
module run as a program: it has little time and memory, and when it fails the
name stays as it is.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

LONGEST = 2048
"""Characters of a name, mangled or not; a longer one stays as it is."""

MOST_NAMES = 100_000
MOST_CPU_S = 5
TIMEOUT_S = 3 * MOST_CPU_S
"""To start takes seconds where others have the CPUs, and then a name would stay as it is."""

MEMORY_BYTES = 1 << 30
MOST_STARTS = 4
"""How many names that end the process are passed over."""

MANGLED = re.compile(r"_Z|_R[A-Z]")
# The last element is a hash: rust-lang.github.io/rustc-dev-guide, "Legacy symbol mangling".
RUST_LEGACY = re.compile(r"_ZN.*17h[0-9a-f]{16}E(?=\.|$)")
RUST_HASH = re.compile(r"::h[0-9a-f]{16}$")


def demangle_apart(names: Sequence[str]) -> list[str]:
    """Have a process demangle; return its whole lines, fewer than names if it failed."""
    command = [sys.executable, "-I", "-m", "kernel_delay.symbols.demangle"]
    try:
        output = subprocess.run(
            command,
            input="".join(f"{json.dumps(name)}\n" for name in names).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            start_new_session=True,
        ).stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    except OSError:
        return []
    return output.decode().split("\n")[:-1]


class Demangler:
    """Demangles names, each once."""

    def __init__(self, run: Callable[[Sequence[str]], list[str]] = demangle_apart) -> None:
        """Know none yet. `run` is what demangles, and may fail as demangle_apart() does."""
        self._run = run
        self._known: dict[str, str] = {}

    def names(self, names: Iterable[str]) -> dict[str, str]:
        """Return what the mangled ones of `names` stand for, where that is known."""
        mangled = {name for name in names if MANGLED.match(name) and len(name) <= LONGEST}
        new = sorted(mangled - self._known.keys())[: MOST_NAMES - len(self._known)]
        self._known |= dict.fromkeys(new, "") | self._demangled(new)
        return {name: found for name in mangled if (found := self._known.get(name))}

    def _demangled(self, names: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for _ in range(MOST_STARTS):
            if not names:
                break
            lines = self._run(names)
            plain = [json.loads(line) for line in lines[: len(names)]]
            found |= {name: text for name, text in zip(names, plain, strict=False) if text != name}
            names = names[len(plain) + 1 :]
        return found


def demangle(name: str, cxx: Callable[[str], str], rust: Callable[[str], str]) -> str:
    """Demangle one name by these; the name itself where they can't."""
    legacy = RUST_LEGACY.match(name)  # which may have points in it
    base = legacy[0] if legacy else name.partition(".")[0]
    suffix = name[len(base) :]  # .cold, .part.0, .llvm.123
    try:
        is_rust = legacy or base.startswith("_R")
        plain = RUST_HASH.sub("", rust(base)) if is_rust else cxx(base)
    except Exception:  # whatever a library has against it
        return name
    if not plain or plain == base or len(plain) > LONGEST:
        return name
    return plain + ("" if suffix.startswith(".llvm.") else suffix)


def main() -> None:
    """Read names as lines of JSON, write what they stand for; without rights, as names attack."""
    from kernel_delay.host.privileges import keep_nothing

    _limit(resource.RLIMIT_CPU, MOST_CPU_S)
    _limit(resource.RLIMIT_CORE, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cxx, rust = cxx_demangler(), rust_demangler()
    _limit(resource.RLIMIT_AS, MEMORY_BYTES)
    keep_nothing()
    for line in sys.stdin:
        print(json.dumps(demangle(json.loads(line), cxx, rust)), flush=True)


def _limit(kind: int, most: int) -> None:
    """Allow so much at most; ends the process where that can't be, as the names are not ours."""
    try:
        _, hard = resource.getrlimit(kind)
        if hard != resource.RLIM_INFINITY:
            most = min(most, hard)
        resource.setrlimit(kind, (most, most))
    except (OSError, ValueError):
        raise SystemExit(os.EX_UNAVAILABLE) from None


def cxx_demangler() -> Callable[[str], str]:
    """The C++ library's own __cxa_demangle(); a name as it is where there is no such library."""
    try:
        found: Callable[[str], str] = import_module("cxxfilt").demangle
    except (ImportError, OSError, AttributeError):
        return str
    return found


def rust_demangler() -> Callable[[str], str]:
    """The Rust library's own; a name as it is where there is no such library."""
    try:
        found: Callable[[str], str] = import_module("rust_demangler").demangle
    except (ImportError, AttributeError):
        return str
    return found


if __name__ == "__main__":
    main()
