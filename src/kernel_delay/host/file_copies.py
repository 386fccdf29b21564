"""Copies of files that processes supply, made by a process of its own: file_copier.py."""

import os
import struct
from collections.abc import Callable

from kernel_delay.host import abandonable
from kernel_delay.host.stored_files import Copier, Status, StoredFile

REQUEST = struct.Struct("<QI")
"""How many bytes may be copied, and the size of the path that follows; with two descriptors.

Without a path the first is the file's, else that of the root directory which the path is in. The
second is of the memory to copy to.
"""

GOES_ON, COPIED, TOO_LARGE, NONE = (bytes([number]) for number in range(4))
"""An answer begins with one of these: a part is copied; all is, and a Status follows; the file is
larger than may be copied; or there is no such file."""

STATUS = struct.Struct("<QQIQq")

READERS = abandonable.Readers("kernel_delay.host.file_copier")


class FileCopies(abandonable.Patience, Copier):
    """Copies of one process's files; once one is late, there are no others."""

    def __init__(
        self,
        room: Callable[[], int],
        on_lost: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Begin with all of the time.

        Args:
            room: How many bytes may be copied now.
            on_lost: Called with why files are not copied.
        """
        super().__init__(READERS, on_lost)
        self._room = room

    def copy(self, found: int, path: str = "") -> StoredFile | None:
        """See Copier."""
        name = os.fsencode(path)
        room = self._room()
        copy = os.memfd_create("copy", os.MFD_CLOEXEC)

        def exchange(asked: abandonable.Asked) -> StoredFile | None:
            asked.send(REQUEST.pack(room, len(name)) + name, found, copy)
            answer = GOES_ON
            while answer == GOES_ON:
                answer = asked.take(1)
            if answer == TOO_LARGE:
                self._on_lost("they are too large to be copied")
            if answer != COPIED:
                return None
            status = Status(*STATUS.unpack(asked.take(STATUS.size)))
            return StoredFile(copy, status, status.size)

        copied = self.ask(exchange)
        if copied is None:
            # Who was abandoned may have it as long as the file's server does not answer.
            os.ftruncate(copy, 0)
            os.close(copy)
        return copied
