"""Servers that are kept busy, of other people: what a comparison is tried on.

A server and its clients share a CPU. With one each, how long a call that answers takes depends on
whether its client sleeps by then: a call that is made slower meets fewer that do, and gets faster.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.workload import wait_until, youngest_descendant

CLIENTS = 4
A_DAY_S = 86_400


class Load(NamedTuple):
    """A server under load: its process, and the system call that it answers with."""

    pid: int
    call: str


def redis(folder: Path, closing: ExitStack) -> Load:
    """Start a redis that clients read from and write to, over a socket of its own."""
    socket = folder / "redis"
    private = ("--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder)
    server = _start(closing, "redis-server", *private)
    wait_until(socket.exists, "redis-server")
    _start(closing, "redis-benchmark", "-s", socket, "-t", "get", "-c", CLIENTS, "-l", "-q")
    return Load(server.pid, "write")


NGINX = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        root {folder}/pages;
    }}
}}
"""
NGINX_PORT = 18_080


def nginx_configuration(folder: Path) -> Path:
    """Write a page of nginx's, and what it is to serve it by; return the latter."""
    pages = folder / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("x" * 1000)
    # Its worker gives up root's rights.
    for made in (folder, pages):
        made.chmod(0o755)
    configuration = folder / "nginx.conf"
    configuration.write_text(NGINX.format(folder=folder, port=NGINX_PORT))
    return configuration


def nginx(folder: Path, closing: ExitStack) -> Load:
    """Start a nginx that sends a small file from the page cache, over loopback."""
    master = _start(closing, "nginx", "-c", nginx_configuration(folder))
    wait_until(lambda: (folder / "nginx.pid").exists(), "nginx")
    wait_until(lambda: youngest_descendant(master.pid) != master.pid, "nginx's worker")
    url = f"http://127.0.0.1:{NGINX_PORT}/"
    _start(closing, "wrk", "-t1", f"-c{CLIENTS}", f"-d{A_DAY_S}", url)
    return Load(youngest_descendant(master.pid), "writev")


LOADS: dict[str, Callable[[Path, ExitStack], Load]] = {"redis": redis, "nginx": nginx}


def _start(closing: ExitStack, *command: object) -> "subprocess.Popen[bytes]":
    """Start a program on the last CPU of ours; `closing` ends it."""
    program, *arguments = map(str, command)
    cpu = max(os.sched_getaffinity(0))
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(f"{program} is not installed: setup/packages-compare.txt has it")
    process = subprocess.Popen(
        ["taskset", "--cpu-list", str(cpu), path, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    closing.callback(process.wait)
    closing.callback(process.terminate)
    return process
