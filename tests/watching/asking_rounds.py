"""A program with an event loop that asks another one in each round, and waits for the answer."""

import os
import select
import socket
import time

from tests.verdicts.staging import tell

ANSWERS_AFTER_S = 0.3


def slow_server(path: str) -> None:
    """Answer after a while."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        tell()
        connection, _ = listener.accept()
        while connection.recv(1):
            time.sleep(ANSWERS_AFTER_S)
            connection.send(b"x")


def asking_loop(path: str) -> None:
    """Poll a pipe that never has anything, and ask."""
    source, _ = os.pipe()
    poll = select.poll()
    poll.register(source, select.POLLIN)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        tell()
        while True:
            poll.poll(5)
            connection.send(b"x")
            connection.recv(1)
