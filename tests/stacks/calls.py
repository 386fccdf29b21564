"""A Python program that reads files and sleeps, some calls deep, in two threads."""

import os
import threading
import time


def call(depth: int, file: int) -> int:
    """Read from the file below sorted() and its key, which are C functions and Python's."""
    if depth:
        return sorted([1, 2], key=lambda n: n + call(depth - 1, file))[0]
    return len(os.read(file, 16))


def work() -> None:
    """Read again and again."""
    file = os.open("/dev/zero", os.O_RDONLY)
    n = 0
    while True:
        call(n % 3, file)
        n += 1
        if n % 20 == 0:
            time.sleep(0.005)


if __name__ == "__main__":
    threading.Thread(target=work, name="worker").start()
    work()
