"""The memory of a process that runs CPython, made up for the tests of what reads it."""

import struct
from collections.abc import Sequence

from kernel_delay.symbols.python import PythonStack
from kernel_delay.symbols.python.interpreter import Interpreter
from kernel_delay.symbols.python.layouts import layout_of
from kernel_delay.symbols.python.threads import ThreadPointers, Threads

HEX_3_9 = 0x030912F0
HEX_3_10 = 0x030A0DF0
HEX_3_11 = 0x030B07F0
HEX_3_12 = 0x030C01F0


class Made:
    """The memory of a process that was made up, with the structures of CPython 3.12 or older."""

    RUNTIME, INTERPRETER, STATE, C_FRAME = 0x1000, 0x2000, 0x3000, 0x4000
    FRAMES, CODES, TYPE, TID = 0x10000, 0x20000, 0x5000, 77
    FRAME_TYPE, PTHREAD = 0x5100, 0x7F00_0000_1000

    def __init__(self, frames: Sequence[str], number: int = HEX_3_12) -> None:
        """The innermost frame first; "" is one that begins a call in C."""
        found = layout_of(number, b"")
        assert found is not None
        self.layout = found
        self.pointers = ThreadPointers({self.PTHREAD: self.TID}, leader=self.PTHREAD)
        self.reads = 0
        self.words: dict[int, int] = {}
        self.texts: dict[int, bytes] = {}
        layout = self.layout
        self.words[self.RUNTIME + layout.interpreters_head] = self.INTERPRETER
        self.words[self.INTERPRETER + layout.threads_head] = self.STATE
        self.words[self.STATE + layout.thread_interpreter] = self.INTERPRETER
        self.tid_place = layout.native_thread_id or layout.thread_id
        if layout.native_thread_id is None:
            self.words[self.STATE + layout.thread_id] = self.PTHREAD
            self.words[self.RUNTIME + layout.main_thread] = self.PTHREAD
            self.words[self.STATE + layout.current_frame] = self.FRAMES
        else:
            self.words[self.STATE + layout.native_thread_id] = self.TID
            self.words[self.STATE + (layout.c_frame or 0)] = self.C_FRAME
            self.words[self.C_FRAME + layout.current_frame] = self.FRAMES
        for number, name in enumerate(frames):
            self._add(number, name)
        self.words[self.frame(len(frames) - 1) + layout.previous] = 0

    def frame(self, number: int) -> int:
        return self.FRAMES + number * 0x100

    def code(self, number: int) -> int:
        return self.CODES + number * 0x1000

    def _add(self, number: int, name: str) -> None:
        layout, frame, code = self.layout, self.frame(number), self.code(number)
        self.words[frame + layout.previous] = frame + 0x100
        if not name:
            self.words[frame + layout.entry // 8 * 8] = 3 << 8 * (layout.entry % 8)
            return
        self.words[frame + layout.executable] = code
        if layout.instruction_bytes is None:
            self.words[frame + layout.instruction] = code + layout.code - 2
        else:
            self.words[frame + layout.type] = self.FRAME_TYPE
            self.words[frame + layout.instruction] = 4
        self.words[code + layout.type] = self.TYPE
        in_word = 8 * (layout.first_line % 8)
        self.words[code + layout.first_line // 8 * 8] = 10 + number << in_word
        function, _, file = name.partition("@")
        texts = ((layout.qualified_name, function), (layout.filename, file))
        for at, (place, text) in zip((code + 0x400, code + 0x480), texts, strict=True):
            self.words[code + place] = at
            self.words[at + layout.text_length] = len(text)
            self.words[at + layout.text_state] = 1 << 2 | 1 << 5 | 1 << 6
            self.texts[at + layout.ascii_size] = text.encode()
        table = self.words[code + layout.line_table] = code + 0x800
        content = b"\x80\x00" if layout.line_format == "locations" else b"\x02\x00\x14\x01"
        self.words[table + layout.bytes_length] = len(content)
        self.texts[table + layout.bytes_content] = content

    def read(self, address: int, size: int) -> bytes:
        self.reads += 1
        if address in self.texts:
            return self.texts[address][:size]
        if not any(address <= known < address + max(size, 8) for known in self.words):
            return b""
        places = range(address // 8 * 8, address + size, 8)
        content = b"".join(struct.pack("=Q", self.words.get(place, 0)) for place in places)
        return content[address % 8 :][:size]

    def word(self, address: int, size: int) -> bytes:
        """As read(), of whole words alone; quick where there are many."""
        return struct.pack("=Q", self.words.get(address, 0))[:size]

    def stack(self) -> PythonStack | None:
        return self.threads().stack(self.TID)

    def threads(self) -> Threads:
        interpreter = Interpreter("", self.RUNTIME, self.layout, self.TYPE, self.FRAME_TYPE)
        threads = Threads(interpreter, self.layout, self.read)
        threads.note(self.pointers)
        return threads
